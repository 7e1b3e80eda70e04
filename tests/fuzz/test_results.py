"""Results of other tools and reports by others: imported and shown, or refused in one message."""

from __future__ import annotations

import contextlib
import copy
import itertools
import json
import random
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import typer
from hypothesis import given
from hypothesis import strategies as st
from specdecode.analysis import Comparison
from specdecode.analysis.other_tools.imported import ImportProblem
from specdecode.analysis.other_tools.imported_report import compare_imported
from specdecode.analysis.other_tools.llmperf import read_arm
from specdecode.analysis.report import documents, render_terminal, render_trend
from specdecode.analysis.results.comparison import read_report
from specdecode.analysis.several_runs.difference import difference, trend
from specdecode.analysis.statistics.accuracy import NoScores, lm_eval_scores
from specdecode.benchmark.answer import drafted_of
from specdecode.cli import report_sources, report_view
from specdecode.experiment.variants import ModelRef, Speculation, Variant
from specdecode.untrusted import Unreadable

from tests.fuzz.profile import RNGS, fuzz, places, soon
from tests.untrusted.hostile import measured

TABLES = Path(__file__).resolve().parents[1] / "specdecode" / "analysis" / "other_tools" / "llmperf"
ODD = [
    *(None, True, False, 0, 1, -1, 2, 10**9, 10**30, 10**400, 0.0, -0.0, 1e-300, 1e308, 5e-324, float("nan")),
    *(2**31 - 1, 2**53, 1e-7, 1e10),
    *(float("inf"), "", "x", "12", "1e5", "NaN", "é\u2028", "\ud800", "\x1b[2J", "../../x", [], {}, [1], {"a": 1}),
]
VARIANTS = (
    Variant(name="base", label="Base"),
    Variant(
        name="sd",
        label="SD",
        compare_to="base",
        speculation=Speculation(draft=ModelRef(id="draft", size_gib=1.0), num_speculative_tokens=7),
    ),
)


def broken(rng: random.Random, document: Any) -> Any:
    """The document with some places replaced, removed or doubled."""
    document = copy.deepcopy(document)
    for _ in range(rng.randrange(1, 4)):
        found = list(places(document))
        if not found:
            return copy.deepcopy(rng.choice(ODD))
        *parents, last = rng.choice(found)
        node = document
        for key in parents:
            node = node[key]
        match rng.randrange(5):
            case 0:
                del node[last]
            case 1 if isinstance(node, list):
                node.insert(0, copy.deepcopy(node[last]))
            case 2 if isinstance(node, dict):
                node[rng.choice(["x", "é", "\ud800", *map(str, node)])] = node.pop(last)
            case _:
                node[last] = copy.deepcopy(rng.choice(ODD))
    return document


def written(rng: random.Random, document: Any) -> bytes:
    data = json.dumps(document).encode()
    if rng.random() < 0.15:
        at = rng.randrange(len(data))
        data = data[:at] + rng.choice([b"", b"\xff", b"[" * 2000, b"}", b"NaN"]) + data[at + rng.randrange(4) :]
    return data


def show(comparison: Comparison) -> None:
    """Every form, as the commands make it."""
    for text in (
        *documents(comparison).values(),
        render_terminal(comparison),
        render_terminal(comparison, colour=True),
    ):
        text.encode("utf-8")
    assert Comparison.model_validate_json(comparison.json_document()) == comparison
    render_trend(trend([comparison]))
    report_view.runs_text(report_view.list_of_runs(trend([comparison]), [], all_of_them=True))
    report_view.difference_text(difference([comparison, comparison.model_copy(update={"run_id": "another"})]))


@cache
def tables() -> list[tuple[Any, Any]]:
    """Summary and individual responses of each arm there is, and responses made up where a table has none."""
    found = []
    for file in sorted(TABLES.rglob("*_summary.json")):
        summary = json.loads(file.read_text())
        numbers = {"error_code": None, "error_msg": "", "ttft_s": 0.1, "end_to_end_latency_s": 2.0}
        numbers |= {"inter_token_latency_s": 0.02, "request_output_throughput_token_per_s": 40.0}
        numbers |= {"number_output_tokens": 100, "number_input_tokens": 64, "number_total_tokens": 164}
        found.append((summary, [numbers | {"ttft_s": 0.1 + 0.01 * n} for n in range(4)]))
    return found


@fuzz(30)
@given(RNGS)
def test_llmperf_files_are_imported_or_refused(rng: random.Random) -> None:
    with tempfile.TemporaryDirectory() as folder, soon(20):
        arms = []
        for variant in VARIANTS:
            summary, individual = rng.choice(tables())
            summary = broken(rng, summary) if rng.random() < 0.7 else summary
            (Path(folder) / f"{variant.name}_summary.json").write_bytes(written(rng, summary))
            if rng.random() < 0.6:
                individual = broken(rng, individual) if rng.random() < 0.7 else individual
                path = Path(folder) / f"{variant.name}_individual_responses.json"
                path.write_bytes(written(rng, individual))
            try:
                arms.append((read_arm(Path(folder) / f"{variant.name}_summary.json", name=variant.name), variant))
            except ImportProblem as error:
                assert 20 < len(str(error)) < 5000
                return
        try:
            comparison = compare_imported(arms=arms, title="fuzz")
        except ImportProblem as error:
            assert str(error)
            return
        show(comparison)


LM_EVAL = {
    "results": {
        "gsm8k": {
            "alias": "gsm8k",
            "exact_match,strict-match": 0.7,
            "exact_match_stderr,strict-match": 0.06,
            "exact_match,none": 0.8,
            "exact_match_stderr,none": "N/A",
        }
    },
    "n-samples": {"gsm8k": {"original": 1319, "effective": 50}},
    "config": {"model": "local-completions", "limit": 50.0},
}


@fuzz(150)
@given(RNGS)
def test_lm_eval_results_are_read_or_refused(rng: random.Random) -> None:
    for _ in range(5):
        with soon():
            try:
                scores = lm_eval_scores("sd", written(rng, broken(rng, LM_EVAL)))
            except NoScores as error:
                assert str(error)
            else:
                json.dumps([score.model_dump(mode="json") for score in scores], allow_nan=False).encode()


@fuzz(100)
@given(st.binary(max_size=200))
def test_nor_does_any_other_file_pass_for_scores(data: bytes) -> None:
    with contextlib.suppress(NoScores):
        lm_eval_scores("sd", data)


@cache
def report() -> Any:
    return json.loads(measured("some words", ks=(3, 7)).json_document())


@fuzz(25)
@given(RNGS)
def test_a_report_by_somebody_else_is_shown_or_refused(rng: random.Random) -> None:
    try:
        comparison = read_report(written(rng, broken(rng, report())))
    except Unreadable as error:
        assert str(error)
        return
    with soon(20):
        show(comparison)


RECORD = {
    "run_id": "run-1", "variant": "base", "case": "repeat", "index": 0, "started_at": 1.79e9, "sent_s": 0.0,
    "chunks": [{"at_s": 0.1, "chars": 4, "tokens": 1}, {"at_s": 0.2, "chars": 4, "tokens": 2}], "end_s": 2.0,
    "output": "a\u2028b\x85c",
    "requested_input_tokens": 64, "requested_output_tokens": 8, "prompt_tokens": 5, "completion_tokens": 3,
    "prompt_sha256": "0" * 64, "finish_reason": "stop", "error": None,
}  # fmt: skip


DRAFTED = [
    None,
    {"acceptance_histogram": [1, 1], "num_draft_tokens": 2},
    {"acceptance_histogram": [2**53 - 1, 1], "num_draft_tokens": 2**53},
]
COUNTERS = {"variant": "sd", "case": "repeat", "drafts": 3, "draft_tokens": 9, "accepted_tokens": 3}


@fuzz(50)
@given(RNGS)
def test_a_folder_of_records_is_compared_or_refused(rng: random.Random) -> None:
    """One load or two, in one round or two; arms that share none; prices, counters and an early end."""
    levels = rng.choice([[1], [1, 4]])
    times = rng.choice([(2.0, 1.0), (2.0, 2.0), (2.0, 5.0)])
    asked = [(level, index) for level in levels for index in range(rng.choice([3, 5]))]
    with tempfile.TemporaryDirectory() as name, soon(20):
        folder = Path(name)
        experiment = measured("x").experiment
        for variant, took_s in zip(("base", "sd"), times, strict=True):
            path = folder / "raw" / variant / "repeat.jsonl"
            path.parent.mkdir(parents=True)
            lines = []
            rounds, slower = rng.choice([(0,), (1,), (0, 1)]), rng.choice([0.0, 1.0])
            for round_, (level, index) in itertools.product(rounds, asked):
                line = {**RECORD, "variant": variant, "index": index, "end_s": took_s + slower * index, "round": round_}
                told = drafted_of({"speculative_decoding": rng.choice(DRAFTED)})
                line |= {"level": f"c{level}", "prompt_sha256": f"{index:064}"}
                line |= {"drafted": told and told.model_dump(mode="json")}
                lines.append(
                    written(rng, broken(rng, line))
                    if rng.random() < 0.03
                    else json.dumps(line, ensure_ascii=False).encode()
                )
            path.write_bytes(rng.choice([b"\n", b"\r\n"]).join(lines))
        spec = {"run_id": "run-1", "experiment": "x", "wave": 0, "round": 0, "model": "m", "arms": [
            {"variant": "base", "label": "Base"}, {"variant": "sd", "label": "SD", "num_speculative_tokens": 3}],
            "workload": experiment.workload.model_dump(mode="json") | {"concurrency": levels}}  # fmt: skip
        for arm in spec["arms"]:
            arm["price_per_hour"] = rng.choice([None, 0, 5e-324, 1.5, 1e6])
        if rng.random() < 0.3:
            spec["workload"] |= {"requests": {"max": 100, "min": 4, "precision": 0.05}}
        (folder / "benchmark.json").write_text(json.dumps(spec))
        servers = {"run_id": "run-1", "counters": [COUNTERS | {"round": at} for at in (0, 1)]}
        (folder / "servers.json").write_bytes(written(rng, broken(rng, servers) if rng.random() < 0.3 else servers))
        try:
            comparison = report_sources._from_path(folder, 36.0)
        except typer.Exit:
            return
        show(comparison)
