"""What cannot be true is recommended nowhere and passes no gate: exit code, JUnit, page and `winner` of each case."""

import json
import random
import xml.etree.ElementTree as Xml
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from specdecode.analysis import Comparison, compare
from specdecode.analysis.report import write_report
from specdecode.records import RequestRecord

from tests.specdecode.analysis.simulate import context, experiment, request, run
from tests.specdecode.cli.calling import call

Change = Callable[[RequestRecord], dict[str, Any]]


def compared(change: Change) -> Comparison:
    """16 prompts a case and arm; `change`: what each record of `sd` has instead."""
    tested = experiment(requests=16)
    records = [each.model_copy(update=change(each)) if each.variant == "sd" else each for each in run(tested)]
    return compare(experiment=tested, records=records, context=context())


def faster(record: RequestRecord, factor: float) -> dict[str, Any]:
    chunks = tuple(replace(chunk, at_s=chunk.at_s / factor) for chunk in record.chunks)
    return {"end_s": record.end_s / factor, "chunks": chunks}


def merged(record: RequestRecord) -> dict[str, Any]:
    """Two chunks of 100 tokens, and 20 times as fast."""
    first, last = record.chunks[0], record.chunks[-1]
    chunks = (replace(first, tokens=100, at_s=first.at_s / 20), replace(last, tokens=100, at_s=last.at_s / 20))
    return {"end_s": record.end_s / 20, "chunks": chunks}


def read_at_once(record: RequestRecord, *, took_s: float | None = None, late_s: float = 2e-4) -> dict[str, Any]:
    """One read brings all chunks. `took_s`: of an answer of 16 tokens; `late_s`: the delay that the client saw."""
    end = took_s or record.end_s
    chunks = tuple(replace(chunk, at_s=end) for chunk in record.chunks)
    if took_s:
        chunks = tuple(replace(chunks[0], tokens=1) for _ in range(16))
    tokens = 16 if took_s else record.completion_tokens
    return {"end_s": end, "chunks": chunks, "completion_tokens": tokens, "time_doubt_s": late_s,
            "output": record.output[: len(record.output) * (tokens or 0) // 200],
            "doubtful_chunks": len(chunks) - 1}  # fmt: skip


CASES: dict[str, tuple[Change, str, int]] = {
    "another text": (
        lambda r: {"output": "Otherwise" + r.output},
        "the answers differ from the first token on in 32 of 32 pairs: the arms do not do the same work",
        5,
    ),
    "tokens without text": (lambda r: {"output": "x" * 50}, "3,200 tokens for 800 bytes of text", 5),
    "100 tokens a chunk": (merged, "100.00 tokens a chunk came", 5),
    "faster than k": (lambda r: faster(r, 6.0), "more than speculation can give: a step yields 8 tokens at most", 5),
    "seconds for milliseconds": (lambda r: faster(r, 1000.0), "something between server and client buffers", 5),
    "a billion": (lambda r: faster(r, 1e9), "chunks came within", 5),
    "a proxy that buffers": (read_at_once, "something between server and client buffers", 5),
    "whole answers": (
        lambda r: {"chunks": (replace(r.chunks[-1], tokens=200, chars=len(r.output)),)},
        "16 of 16 answers came whole, in one chunk",
        5,
    ),
    "some answers read at once": (lambda r: read_at_once(r, late_s=0.06) if r.index % 5 == 0 else {}, "fell behind", 4),
    "some short answers read at once": (
        lambda r: read_at_once(r, took_s=0.011) if r.index % 5 == 0 else {},
        "fell behind",
        4,
    ),
    "faster than k by a late client": (lambda r: {**faster(r, 6.0), "time_doubt_s": 0.05}, "fell behind", 4),
    "a client that is late": (lambda r: {"time_doubt_s": 0.05}, "the load generator fell behind", 4),
    "a client that was very late": (
        lambda r: {"time_doubt_s": 0.06 * r.end_s} if r.index % 5 < 2 else {},
        "the load generator fell behind",
        4,
    ),
}


def judged(folder: Path, comparison: Comparison, *, says: str, code: int) -> None:
    write_report(comparison, folder)
    junit = folder / "gate.xml"
    found = call("gate", folder, "--min-speedup", "0.5", "--each-case", "--junit", junit, code=code)
    assert says in found.stdout
    cases = list(Xml.parse(junit).iter("testcase"))
    kinds = [each[0].tag for each in cases]
    assert kinds[0] == ("failure" if code == 5 else "skipped") and "system-out" not in kinds
    page = (folder / "report.html").read_text()
    heading = page[page.index("<h1") : page.index("</h1>")].replace("&#39;", "'")
    assert says in heading
    assert "kind: Deployment" not in call("winner", folder, code=code).output
    for form in ("terminal", "markdown"):
        text = " ".join(call("report", folder, "--format", form).stdout.replace("\\", "").split())
        assert "Use sd" not in text and "**pays**" not in text
    if code == 5:
        shown = json.loads((folder / "report.json").read_text())
        assert all(case["headline"] is None for pair in shown["pairs"] for case in pair["cases"])


@pytest.mark.parametrize("name", CASES)
def test_a_figure_that_cannot_be_true_stops_every_output(tmp_path: Path, name: str) -> None:
    change, says, code = CASES[name]
    judged(tmp_path, compared(change), says=says, code=code)


def test_nothing_stops_a_run_that_is_as_it_should_be(tmp_path: Path) -> None:
    """Hidden reasoning is told apart, a busy machine is no reason, and sampled answers may differ. A few answers that
    were read at once are no evidence.
    """
    unseen = compared(lambda r: {"output": r.output[:40], "reasoning_tokens": 180})
    late = compared(lambda r: {"time_doubt_s": 0.01 if r.index % 2 else 0.0})
    tie = compared(lambda r: {"output": "O" + r.output} if r.index == 3 and r.case == "sonnet" else {})
    once = compared(lambda r: read_at_once(r, late_s=0.06) if r.index == 3 and r.case == "sonnet" else {})
    for number, found in enumerate((unseen, late, tie, once)):
        write_report(found, tmp_path / str(number))
        call("gate", tmp_path / str(number), "--min-speedup", "1.1")
    assert any("5,760 tokens of sd are reasoning that the server counts and does not show" in note
               for note in unseen.notes)  # fmt: skip


@pytest.mark.parametrize(("factor", "says"), [(1667.0, "a speed-up of 1,6"), (1e9, "a speed-up of")])
def test_imported_times_in_another_unit_are_no_speed_up(tmp_path: Path, factor: float, says: str) -> None:
    rng = random.Random(1)
    for arm, scale in (("base", factor), ("sd", 1.0)):
        made = [request(variant=arm, case="c", index=n, rng=rng, sent_s=5.0 * n) for n in range(20)]
        took = max(each.sent_s + each.end_s for each in made) * scale
        document = {
            "backend": "vllm", "model_id": "m", "tokenizer_id": "m", "num_prompts": 20, "completed": 20, "failed": 0,
            "request_rate": "inf", "max_concurrency": 1, "date": "20261101-120000", "duration": took,
            "mean_ttft_ms": 150 * scale, "total_input_tokens": 20 * 64, "total_output_tokens": 20 * 200,
            "input_lens": [64] * 20, "output_lens": [200] * 20, "errors": [""] * 20,
            "ttfts": [each.chunks[0].at_s * scale for each in made],
            "itls": [[(each.end_s - each.chunks[0].at_s) / 199 * scale] * 199 for each in made],
            "generated_texts": ["a text"] * 20,
        }  # fmt: skip
        (tmp_path / f"{arm}.json").write_text(json.dumps(document))
    out = tmp_path / "out"
    call("import", f"base={tmp_path}/base.json", f"sd={tmp_path}/sd.json", "--out", out)
    judged(out, Comparison.model_validate_json((out / "report.json").read_text()), says=says, code=5)
