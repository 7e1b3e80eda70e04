"""`specdecode instance` where the machine's disk or a check ends it: one message, and what to do."""

import errno
import os

import pytest
from specdecode.cli import app, report_recorded
from specdecode.instance import requirements
from specdecode.instance.run import InstanceRun
from typer.testing import CliRunner


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run the command with these options, on a machine where all is there and nothing takes time."""
    (tmp_path / "bin").mkdir()
    for name in ("vllm", "python3"):
        (tmp_path / "bin" / name).touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(requirements, "problems", lambda *_: [])
    monkeypatch.setattr(InstanceRun, "prepare", lambda self, **_: None)
    monkeypatch.setattr(InstanceRun, "measure", lambda self: None)
    return lambda *words: CliRunner().invoke(app, ["instance", "rehearsal", "--venv", str(tmp_path), *words])


def test_a_store_that_cannot_be_made_is_a_wrong_input(run) -> None:
    found = run("--store", "/proc/none")
    assert (found.exit_code, found.stderr) == (2, "error: [Errno 2] No such file or directory: '/proc/none'\n")


def test_a_disk_that_is_full_at_the_report_says_how_to_finish(run, monkeypatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "report.html")

    monkeypatch.setattr(report_recorded, "recorded", full)
    found = run("--out", "mine")
    assert found.exit_code == 1, found.output
    assert "No space left on device: 'report.html'; the same command with --resume --out " in found.stderr


def test_a_refused_check_does_not_speak_of_a_run(run, monkeypatch) -> None:
    monkeypatch.setattr(requirements, "problems", lambda *_: ["no device"])
    found = run()
    assert found.exit_code == 3 and found.stderr == "error: no device\n"
