"""No child outlives a rehearsal, however the rehearsal ends."""

import os
import signal
import subprocess
import sys
from unittest.mock import Mock

import pytest

from rehearsal import rehearse, tools
from rehearsal.console import Progress
from rehearsal.processes import ChildFailed, Processes, clear_abandoned, processes_naming, wait_until_gone
from tests.patience import PATIENCE_S, until

SLEEP = [sys.executable, "-c", "import time; time.sleep(3600)"]
DETACHED = f"""
import subprocess
subprocess.Popen({SLEEP!r}, start_new_session=True)
"""
STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True); time.sleep(3600)"
)


@pytest.fixture
def processes(tmp_path):
    with Processes(folder=tmp_path / "work", root=tmp_path) as running:
        yield running


def test_leaving_the_block_ends_children_and_their_detached_children(tmp_path, monkeypatch):
    folder = tmp_path / "work"
    monkeypatch.setattr("rehearsal.processes.SETTLE_S", 0.2)
    with Processes(folder=folder, root=tmp_path) as running:
        running.start("sleeps", SLEEP, environment=tools.environment())
        running.start("detaches", [sys.executable, "-c", DETACHED], environment=tools.environment()).wait(
            timeout_s=PATIENCE_S
        )
        assert len(running.left()) == 2
    assert wait_until_gone(folder, timeout_s=PATIENCE_S) == []


def test_a_child_that_ignores_sigterm_is_killed(tmp_path, monkeypatch):
    monkeypatch.setattr("rehearsal.processes.GRACE_S", 0.2)
    with Processes(folder=tmp_path / "work", root=tmp_path) as running:
        child = running.start("stubborn", [sys.executable, "-c", STUBBORN], environment=tools.environment())
        until(lambda: "ready" in child.tail())
    assert child.process.returncode == -signal.SIGKILL


def test_all_children_end_when_this_process_is_killed(tmp_path):
    script = f"""
import os, pathlib, signal, sys
from rehearsal.processes import Processes
with Processes(folder=pathlib.Path({str(tmp_path / "work")!r}), root=pathlib.Path(".")) as running:
    running.start("sleeps", {SLEEP!r}, environment=dict(os.environ))
    running.start("detaches", [sys.executable, "-c", {DETACHED!r}], environment=dict(os.environ))
    os.kill(os.getpid(), signal.SIGKILL)
"""
    subprocess.run([sys.executable, "-c", script], cwd=tools.ROOT, check=False, timeout=PATIENCE_S)
    assert wait_until_gone(tmp_path / "work", timeout_s=PATIENCE_S) == []


def test_failure_tells_the_last_words_and_the_log(processes):
    child = processes.start("fails", [sys.executable, "-c", "raise SystemExit('no such stack')"], environment={})
    with pytest.raises(ChildFailed, match=r"fails failed with status 1:\nno such stack\nAll of it: .*/logs/fails\.log"):
        child.wait(timeout_s=PATIENCE_S)


def test_a_child_that_does_not_end_in_time_is_a_failure(processes):
    child = processes.start("sleeps", SLEEP, environment=tools.environment())
    with pytest.raises(ChildFailed, match="did not finish within 0 s"):
        child.wait(timeout_s=0.1)


def test_stdin_is_closed_and_the_environment_is_what_was_given(processes):
    script = "import os, sys; print(repr(sys.stdin.read()), 'HOME' in os.environ, os.environ['A'])"
    child = processes.start("looks", [sys.executable, "-c", script], environment={"A": "b"})
    child.wait(timeout_s=PATIENCE_S)
    assert child.tail() == "'' False b"


def test_only_processes_that_name_the_folder_belong_to_it(processes, tmp_path):
    child = processes.start("sleeps", SLEEP, environment=tools.environment())
    until(lambda: processes_naming(processes.folder) == [child.process.pid])
    assert processes_naming(tmp_path / "other") == []
    assert os.getpid() not in processes_naming(tmp_path)


def test_a_killed_child_is_said_to_be_killed(processes):
    child = processes.start("dies", [sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"], environment={})
    with pytest.raises(ChildFailed, match=r"dies failed by signal SIGKILL \(by a person, or by the kernel"):
        child.wait(timeout_s=PATIENCE_S)


def test_what_a_killed_rehearsal_left_is_cleared_and_what_runs_is_not(tmp_path):
    """The guardian is killed too, so no process is left that would end the children."""
    script = f"""
import os, pathlib, signal
from rehearsal.processes import Processes
with Processes(folder=pathlib.Path({str(tmp_path / "dead")!r}), root=pathlib.Path(".")) as running:
    running.start("sleeps", {SLEEP!r}, environment=dict(os.environ))
    running._guardian.kill()
    os.kill(os.getpid(), signal.SIGKILL)
"""
    subprocess.run([sys.executable, "-c", script], cwd=tools.ROOT, check=False, timeout=PATIENCE_S)
    until(lambda: len(processes_naming(tmp_path / "dead")) == 1)
    with Processes(folder=tmp_path / "alive", root=tmp_path) as running:
        child = running.start("sleeps", SLEEP, environment=tools.environment())
        clear_abandoned([tmp_path / "dead", tmp_path / "alive"])
        assert processes_naming(tmp_path / "dead") == []
        assert not (tmp_path / "dead").exists()
        assert child.running
        assert (tmp_path / "alive" / "logs").exists()


def test_a_deployment_that_says_nothing_any_more_is_a_failure(processes, monkeypatch):
    monkeypatch.setattr(rehearse, "SILENCE_S", 0.3)
    child = processes.start("deploy", SLEEP, environment=tools.environment())
    running = rehearse.Rehearsal(processes=processes, services=Mock(), progress=Progress(), synthesis=child)
    with pytest.raises(ChildFailed, match="deploy has said nothing for"):
        running._await(child, Mock())
    assert child.running  # leaving the block ends it
