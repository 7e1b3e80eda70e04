"""Counters, prompts and reports of monitors: values, or nothing, or one error."""

import contextlib
import random
import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from specdecode.benchmark.adhoc import BadRequest, cases_of
from specdecode.benchmark.counters import Unusable, parse_counters, since
from specdecode.benchmark.prompts import prompts_of
from specdecode.benchmark.tokens import EstimatedTokens
from specdecode.escape import plain
from specdecode.pod import neuron_metrics

from tests.fuzz.profile import RNGS, fuzz, soon
from tests.specdecode.benchmark.making import spec

NAMES = ["num_drafts", "num_draft_tokens", "num_accepted_tokens", "num_accepted_tokens_per_pos", "x", ""]
LABELS = ["", '{engine="0"}', '{position="0"}', '{position="3",engine="1"}', '{position="99999999999999999999"}']
LABELS += ['{position="' + "9" * 5000 + '"}', '{a="}"}', "{", '{position="٣"}', '{position="-1"}']
VALUES = [
    *("0", "1", "12.0", "1e3", "1e308", "1e400", "NaN", "+Inf", "-5", "9" * 400, "٣", "x", "", "1_000", "0x10"),
    "1 2",
]


@fuzz(150)
@given(RNGS)
def test_metrics_text_gives_counters_or_none(rng: random.Random) -> None:
    lines = []
    for _ in range(rng.randrange(14)):
        name = (
            f"{rng.choice(['vllm:', 'x:', ''])}spec_decode_{rng.choice(NAMES)}{rng.choice(['_total', '', '_created'])}"
        )
        lines.append(f"{rng.choice(['', '', '# HELP '])}{name}{rng.choice(LABELS)} {rng.choice(VALUES)}")
    with soon():
        found = parse_counters(rng.choice(["\n", "\r\n", "\u2028"]).join(lines))
        if isinstance(found, Unusable):
            assert found.why == plain(found.why) and len(found.why) < 200
        elif found is not None:
            assert min(found) >= 0
            assert len(found) < 10_000
        since(found, found)


@fuzz(100)
@given(st.text(max_size=300))
def test_any_text_is_metrics_or_none(text: str) -> None:
    with soon():
        parse_counters(text)
        parse_counters("vllm:spec_decode_num_drafts_total{" * 5000 + text)


PIECES = [
    *('{"prompt": "a"}', '"b"', '{"messages": [{"role": "user", "content": "x"}]}', "{}", "[]", "1", "null", ""),
    *("\u2028", '{"prompt": "a\u2028b"}', '{"prompt": "\\ud800"}', '{"prompt": 5}', '{"messages": [5]}', "[" * 3000),
    *("{", "é", "\x00", '{"prompt": "a", "max_tokens": 0}', '{"prompt": "a", "max_tokens": 1e3}'),
    '{"messages": [{"role": 1, "content": []}]}',
]


@fuzz(100)
@given(st.lists(st.sampled_from(PIECES), max_size=6), st.binary(max_size=20), st.sampled_from(["\n", "\r\n", "\r"]))
def test_a_file_of_prompts_gives_prompts_or_is_refused(pieces: list[str], noise: bytes, end: str) -> None:
    with tempfile.TemporaryDirectory() as folder, soon():
        path = Path(folder) / "prompts.jsonl"
        path.write_bytes(end.join(pieces).encode() + (noise if len(noise) > 15 else b""))
        try:
            case, *_ = cases_of(named=[], prompts=[], files=[path])
        except BadRequest as error:
            assert "prompts.jsonl" in str(error)
            assert len(str(error)) < 5000
            return
        prompts = prompts_of(case, spec().workload, EstimatedTokens(), count=3)
        for prompt in prompts:
            prompt.identity.encode("utf-8")


REPORTS = [
    *("{}", "[]", '{"neuron_runtime_data": null}', '{"neuron_runtime_data": [{"report": {}, "error": ""}]}'),
    *("[" * 3000, "x"),
    '{"neuron_runtime_data": [{"error": "", "report": {"memory_used": {"error": "", "neuron_runtime_used_bytes": '
    '{"neuron_device": 5}}}}]}',
    '{"neuron_runtime_data": [{"error": "", "report": {"neuroncore_counters": {"error": "", "neuroncores_in_use": '
    '{"0": {"neuroncore_utilization": NaN}}}}}]}',
]


@fuzz(60)
@given(st.lists(st.sampled_from(REPORTS), max_size=5), st.text(max_size=80))
def test_reports_of_the_monitor_never_end_it(reports: list[str], text: str) -> None:
    sent: list[object] = []
    with contextlib.redirect_stdout(None), soon():
        neuron_metrics.publish(
            [*reports, text], variant="SD", send=sent.append, clock=iter(range(0, 10**6, 61)).__next__
        )
