"""What is done to a rehearsal itself (not to a run), and how it ends; writes docs/reference/faults.md.

Not part of `make test` (about twenty minutes). Run it with

    make suite NAME=hardship

Every case ends with the same checks: an end in time, no traceback, a last line that says what happened, and no process
that the next rehearsal would have to live with. Needs the right to mount (a full disk is a small one in memory).
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rehearsal import tools
from rehearsal.processes import processes_naming
from tests.end_to_end.driver import Driver, end_all, guardians, interrupted, runs, signalled
from tests.end_to_end.page import write
from tests.patience import LONG_S

HELD = "AcquireCapacity .* is ready"
KILL, STOP = signal.SIGKILL, signal.SIGSTOP
EMULATOR, DOUBLE = b"-m\0rehearsal.cloud\0", b"-m\0rehearsal.kubernetes\0"
ROWS: list[tuple[str, ...]] = []


def note(done: str, when: str, driver: Driver, status: int, began: float) -> None:
    last = [line.strip() for line in driver.lines if line.strip() and not line.startswith("make")]
    said = next((line for line in last if re.search(ENDINGS, line)), last[-1] if last else "-")
    ROWS.append(
        (done, when, str(status), re.sub(re.escape(str(driver.root)), "…", said), f"{time.monotonic() - began:.0f} s")
    )


ENDINGS = (
    r"ended by signal|has said nothing|did not answer|Interrupted|free;|way of a folder|No space|at 0 replicas|may open"
)


@pytest.fixture(autouse=True, scope="module")
def _page() -> Iterator[None]:
    tools.check()
    yield
    write("hardships", ROWS, key=2)


@pytest.fixture(autouse=True)
def _nothing_left() -> Iterator[None]:
    yield
    assert end_all() == []


KILLED = "ended by signal SIGKILL"
FIRST = ""
DEPLOYING = "✓ Synthesize"
DESTROYING = "Report: results"


@pytest.mark.parametrize(
    ("done", "when", "pattern", "act", "status", "seconds", "says"),
    [
        ("the embedded AWS is killed", "Deploy", DEPLOYING, signalled(EMULATOR, KILL), 1, 60, f"aws {KILLED}"),
        ("the embedded AWS is killed", "Compile", HELD, signalled(EMULATOR, KILL), 1, 60, f"aws {KILLED}"),
        ("the Kubernetes double is killed", "Compile", HELD, signalled(DOUBLE, KILL), 1, 60, f"kubernetes {KILLED}"),
        ("the embedded AWS stands still", "Compile", HELD, signalled(EMULATOR, STOP), 1, 600, "did not answer as it"),
        ("the embedded AWS stands still", "Deploy", DEPLOYING, signalled(EMULATOR, STOP), 1, 900, "nothing for 480 s"),
        ("Ctrl-C", "first second", FIRST, interrupted(), -signal.SIGINT, 10, ""),
        ("Ctrl-C", "Start", "Rehearsing", interrupted(), 130, 30, "Interrupted"),
        ("Ctrl-C", "Synthesize", "✓ Start the", interrupted(), 130, 30, "Interrupted"),
        ("Ctrl-C", "Deploy", DEPLOYING, interrupted(), 130, 30, "Interrupted"),
        ("Ctrl-C three times", "Compile", HELD, interrupted(3), 130, 30, "Interrupted"),
        ("Ctrl-C", "Destroy", DESTROYING, interrupted(), 130, 30, "Interrupted"),
    ],
)
def test_it_ends_in_time_and_says_why(done, when, pattern, act, status, seconds, says):
    driver = Driver()
    if pattern:
        driver.until(pattern)
    time.sleep(0.5 if pattern else 0.4)
    began = time.monotonic()
    act(driver)
    assert driver.ended(seconds=seconds) == status, driver.text
    assert says in driver.text
    note(done, when, driver, status, began)


@pytest.mark.parametrize(
    ("done", "arguments"),
    [
        ("no UTF-8 (LC_ALL=C, PYTHONIOENCODING=ascii)", {"environment": {"LC_ALL": "C", "PYTHONIOENCODING": "ascii"}}),
        ("256 open files, more allowed", {"limit": (256, 4096)}),
    ],
)
def test_it_works_all_the_same(done, arguments):
    began = time.monotonic()
    driver = Driver(**arguments)
    assert driver.ended() == 0, driver.text
    assert "NodePool at 0 replicas, stacks deleted, no process left" in driver.text
    note(done, "always", driver, 0, began)


def test_too_few_open_files_are_refused_with_the_number():
    began = time.monotonic()
    driver = Driver(limit=(256, 256))
    assert driver.ended(seconds=20) == 3
    assert f"a rehearsal needs {tools.OPEN_FILES}" in driver.text
    note("256 open files, no more allowed", "always", driver, 3, began)


@pytest.fixture
def small_disk() -> Iterator[Callable[[Path, int], None]]:
    """Puts a disk of some MiB at a folder."""
    mounted = list[Path]()

    def mount(folder: Path, size: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={size}m", "tmpfs", folder], capture_output=True, check=False
        )
        if done.returncode:
            pytest.skip(f"no right to mount: {done.stderr.decode().strip()}")
        mounted.append(folder)

    yield mount
    for folder in mounted:
        subprocess.run(["umount", "--lazy", folder], check=True)


@pytest.mark.parametrize("folder", ["runs", "results"])
def test_a_disk_without_room_is_refused_before_anything_starts(small_disk, folder):
    small_disk(tools.RUNS if folder == "runs" else tools.RESULTS, 8)
    began = time.monotonic()
    driver = Driver()
    assert driver.ended(seconds=20) == 3
    assert "8 MiB free" in driver.text or "7 MiB free" in driver.text
    note(f"no room on the disk of {folder}", "always", driver, 3, began)


def test_a_disk_that_fills_up_while_it_runs(small_disk):
    """Results cannot be brought home: what the run measured is lost, and that is said."""
    small_disk(tools.RESULTS, 64)
    driver = Driver()
    driver.until(HELD)
    (tools.RESULTS / "filler").write_bytes(bytes(shutil.disk_usage(tools.RESULTS).free))
    began = time.monotonic()
    assert driver.ended() == 3
    assert "No space left on device" in driver.text
    note("the disk of results fills up", "Compile", driver, 3, began)


def test_a_file_where_results_belong_is_refused_before_anything_starts():
    kept = tools.RESULTS.with_name("results.kept")
    if tools.RESULTS.exists():
        tools.RESULTS.rename(kept)
    try:
        tools.RESULTS.write_text("")
        began = time.monotonic()
        driver = Driver()
        assert driver.ended(seconds=20) == 3
        assert "A file is in the way of a folder" in driver.text
        note("a file where results belong", "always", driver, 3, began)
    finally:
        tools.RESULTS.unlink()
        if kept.exists():
            kept.rename(tools.RESULTS)


@pytest.mark.parametrize("guardian", [False, True], ids=["driver", "driver and guardian"])
def test_what_a_killed_rehearsal_leaves_the_next_one_clears(guardian):
    driver = Driver()
    driver.until(HELD)
    began = time.monotonic()
    if guardian:
        [pid] = guardians()
        os.kill(pid, signal.SIGKILL)
    os.kill(driver.process.pid, signal.SIGKILL)
    driver.process.wait(10)
    if guardian:
        assert Driver(limit=(256, 256)).ended(seconds=20) == 3  # refused before it looks
    else:
        deadline = time.monotonic() + 20
        while processes_naming(runs()) and time.monotonic() < deadline:
            time.sleep(0.2)
        assert processes_naming(runs()) == []
    after = Driver()
    after.until("✓ Start the")
    assert [folder for folder in runs().iterdir() if folder.is_dir() and not processes_naming(folder)] == []
    assert len(list(runs().iterdir())) == 1
    interrupted()(after)
    assert after.ended(seconds=30) == 130
    what = "its driver and its guardian are killed" if guardian else "its driver is killed"
    ROWS.append(
        (
            what,
            "Compile",
            "-9",
            "the next rehearsal begins with nothing of it left",
            f"{time.monotonic() - began:.0f} s",
        )
    )


def test_a_checkout_below_a_folder_with_a_space(tmp_path):
    root = tmp_path / "with a space" / "check out"
    subprocess.run(["git", "clone", "--quiet", tools.ROOT, root], check=True)
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("VIRTUAL_ENV", "MAKE", "PYTHON"))
    }
    began = time.monotonic()
    done = subprocess.run(
        ["make", "rehearse", f"PYTHON={sys.executable}"],
        cwd=root,
        env=environment,
        capture_output=True,
        text=True,
        timeout=LONG_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "no process left" in done.stderr
    ROWS.append(
        (
            "a path with a space",
            "always",
            "0",
            "NodePool at 0 replicas, stacks deleted, no process left",
            f"{time.monotonic() - began:.0f} s",
        )
    )
