"""What upstream's programs say: every failure is recognised, and no line of a healthy log is taken for one."""

import re
from pathlib import Path

import pytest
import yaml
from specdecode.experiment import assets_dir
from specdecode.kubernetes.diagnosis import explain, load_table

HERE = Path(__file__).parent
TABLE = load_table(assets_dir() / "diagnosis.yaml")
FAILURES = yaml.safe_load((HERE / "upstream_lines.yaml").read_text("utf-8"))
HEALTHY = yaml.safe_load((HERE / "healthy_lines.yaml").read_text("utf-8"))
A_JOB, A_SERVER = (
    "CompileFailed: r1-compile failed: BackoffLimitExceeded: Job has",
    "ServeNotReady: 0 of 2 arms are ready",
)
OF_UPSTREAM = {row.name for row in TABLE.causes if row.reason and "logs" in row.look_in}


def test_there_are_enough_lines_and_each_has_its_source():
    assert len({each["line"] for each in FAILURES}) == len(FAILURES) >= 60
    assert all(each["source"].strip() for each in FAILURES)
    assert len({line for each in HEALTHY for line in each["lines"]}) >= 200
    assert all(each["source"].strip() for each in HEALTHY)


def test_every_row_with_a_probable_reason_has_a_line_of_its_own():
    assert {each["row"] for each in FAILURES} >= OF_UPSTREAM


@pytest.mark.parametrize("each", FAILURES, ids=lambda each: f"{each['row']}: {each['line'][:60]}")
def test_a_line_in_a_pod_s_log_has_its_cause_whatever_the_exit_code_says(each):
    log = f"INFO:     Started server process [7]\n{each['line']}\nRuntimeError: Engine core initialization failed.\n"
    status = "r1-w0-sd: container main keeps ending with exit code 1 (3 restarts)"
    for error in (A_JOB, A_SERVER):
        row, text = explain(TABLE, {"error": error, "status": status, "logs": log})
        assert row == each["row"], text
        assert "()" not in text and not re.search(r"\{[a-z]\w*\}", text)


@pytest.mark.parametrize("each", HEALTHY, ids=lambda each: each["source"][:60])
def test_no_line_of_a_healthy_log_is_a_cause(each):
    taken = {}
    for line in each["lines"]:
        row, _ = explain(TABLE, {"error": "", "status": "", "logs": line})
        if row != "unknown":
            taken[line] = row
    assert not taken


def test_the_status_of_a_failed_command_is_found_behind_the_command():
    """neuronx-cc's arguments are longer than what is searched of the start of a line."""
    command = ", ".join(f"'/tmp/nxd_model/token_generation_model/_tp0_bk{n}/model.hlo_module.pb'" for n in range(99))
    log = f"subprocess.CalledProcessError: Command '['neuronx-cc', {command}]' returned non-zero exit status 70.\n"
    assert len(log) > 5000
    assert explain(TABLE, {"error": A_JOB, "logs": log})[0] == "compiler-crash"


def test_the_pieces_of_a_long_line_are_no_lines_of_their_own():
    """A pod could otherwise write what only the pipeline says."""
    log = "x" * 5000 + "NobodyTold" + "y" * 990
    assert explain(TABLE, {"error": log})[0] == "unknown"
