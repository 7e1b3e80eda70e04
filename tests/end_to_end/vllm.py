"""Real vLLM with the table of k by batch size that a report prints: it starts with it, and serves by it.

Not part of `make test`: it needs `make install-vllm`, and two servers of real vLLM start (a minute on idle cores, many
on busy ones). Run it with

    .venv/bin/pytest tests/end_to_end/vllm.py
"""

import json
import re
from pathlib import Path
from typing import Any

from specdecode.analysis import Comparison
from specdecode.analysis.results.over_load import KRange, Schedule
from specdecode.experiment import load_preset
from specdecode.records import RequestRecord, Servers

from rehearsal import imports
from tests.end_to_end.cloud import Cloud, quiet_rehearsal

RANGES = (KRange(first=1, last=2, k=5, variant="sd"), KRange(first=3, last=4, k=0, variant="base"))
PRINTED = Schedule(draft="specdecode/pair-draft-llama", ranges=RANGES, measured_to=4, engine_takes_it=True).paste
LOADS: dict[str, Any] = {
    "workload.cases": ["count"],
    "workload.requests": 4,
    "workload.output_tokens": 48,
    "workload.concurrency": [1, 4],
    "workload.slo": {"e2e_s": 60},
}


def test_vllm_starts_with_the_printed_table_and_speculates_by_it(tmp_path: Path) -> None:
    experiment = load_preset("rehearsal-vllm")
    imports.check(experiment)
    pasted = {f"variants.sd.speculation.{key}": value for key, value in json.loads("{" + PRINTED + "}").items()}
    with quiet_rehearsal() as running:
        running.deploy()
        running.import_models(experiment)
        cloud = Cloud(running)
        run = running.start("vllm-by-load", {"experiment": "rehearsal-vllm", "set": {**LOADS, **pasted}})
        end = cloud.ended(run)
        assert end.status == "SUCCEEDED", f"{end.error}: {end.cause}"
        folder = running.download(run.run_id, to=tmp_path)
    said = (folder / "used" / "sd.txt").read_text()
    assert "method='draft_model', model=" in said and "num_spec_tokens=5)" in said
    counters = {
        item.level: item
        for item in Servers.model_validate_json((folder / "servers.json").read_bytes()).counters
        if item.variant == "sd"
    }
    written = {"c1": 0, "c4": 0}
    for line in (folder / "raw" / "sd" / "count.jsonl").read_bytes().splitlines():
        record = RequestRecord.model_validate_json(line)
        assert record.error is None and record.completion_tokens == LOADS["workload.output_tokens"]
        written[record.level] += 0 if record.warmup else record.completion_tokens
    drafted = {level: counters[level].draft_tokens / written[level] for level in written}
    print(f"drafted for each token written: {drafted}; {counters}")
    assert drafted["c1"] > 0.8, "one request at a time: five drafts a step"
    assert drafted["c4"] < drafted["c1"] / 3, "four at a time: none but while they start and end"
    report = Comparison.model_validate_json((folder / "report.json").read_bytes())
    assert all(case.equality.identical == case.equality.compared for pair in report.pairs for case in pair.cases)
    assert not any("IMPOSSIBLE" in note or "than assumed" in note for note in report.notes), report.notes
    assert re.fullmatch(r"\d+\.\d min of the node, \$\d+\.\d\d", str(report.context.start_check))
    assert [point.level.name for point in report.curve[0].points] == ["c1", "c4"]
    assert "k=5 at 1 to 2, 0 at 3 to 4 running" in (report.recommendation or "")
