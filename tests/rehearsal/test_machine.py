"""`specdecode instance` from nothing to a report with the embedded engine, by a stand-in for docker, and by --venv."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from specdecode.instance.containers import MARK
from specdecode.instance.running import WATCHDOG

from tests.patience import PATIENCE_S, until

ROOT = Path(__file__).resolve().parents[2]
DOCKER = ROOT / "rehearsal" / "machine" / "docker"
SETTINGS = ("workload.cases=[count]", "workload.prompts=[]", "workload.requests=2", "workload.rounds=1")
MOMENTS = {
    "fetching": lambda machine: machine.has("store/models"),
    "compiling": lambda machine: machine.runs("compile-base"),
    "loading": lambda machine: machine.runs("serve-base"),
    "serving": lambda machine: machine.said("serve-sd is healthy"),
    "measuring": lambda machine: machine.has("results/mine/raw"),
}


class Machine:
    """A folder with docker's stand-in on the PATH, an image with the embedded engine, and the models to import."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.docker = folder, folder / "docker"
        self.image = self.docker / "images" / "specdecode.invalid_rehearsal_engine_local"
        (self.image / "bin").mkdir(parents=True)
        (folder / "bin").mkdir()
        (folder / "bin" / "docker").symlink_to(DOCKER)
        (self.image / "bin" / "vllm").symlink_to(ROOT / "rehearsal" / "engine" / "vllm")
        python = self.image / "bin" / "python3"
        python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
        python.chmod(0o755)
        for name in ("pair-target", "pair-draft"):
            shutil.copytree(ROOT / "rehearsal" / "engine" / "weights" / name, folder / "store" / "imports" / name)

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        path = f"{self.folder / 'bin'}:{os.environ['PATH']}"
        kept = {key: value for key, value in os.environ.items() if not key.startswith("AWS_")}
        command = [sys.executable, "-c", "from specdecode.cli import main; main()", "instance", "rehearsal"]
        command += [part for each in SETTINGS for part in ("--set", each)]
        return self.program([*command, *words], kept | {"PATH": path, "REHEARSAL_DOCKER": str(self.docker)})

    def program(self, words: list[str], env: dict[str, str]) -> subprocess.Popen[bytes]:
        with (self.folder / "said").open("ab") as said:
            return subprocess.Popen(words, cwd=self.folder, env=env, stdout=said, stderr=said, start_new_session=True)

    def run(self, *words: str) -> int:
        return self.start(*words).wait(PATIENCE_S)

    def script(self, *words: str) -> subprocess.Popen[bytes]:
        """The printed script, where no program of the PATH has this package."""
        assert self.run("--print", *words) == 0, self.text()
        (self.folder / "run.sh").write_text(self.text())
        env = {"PATH": f"{self.folder / 'bin'}:/usr/local/bin:/usr/bin:/bin", "REHEARSAL_DOCKER": str(self.docker)}
        return self.program(["dash", "run.sh"], env)

    def text(self) -> str:
        return (self.folder / "said").read_text() if (self.folder / "said").exists() else ""

    def said(self, what: str) -> bool:
        return what in self.text()

    def has(self, path: str) -> bool:
        return (self.folder / path).exists()

    def runs(self, name: str) -> bool:
        return any((self.docker / "containers").glob(f"*{name}"))

    def processes(self) -> list[str]:
        """Command lines of the processes that work in the folder."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                try:
                    words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                    where = str((entry / "cwd").readlink())
                except OSError:
                    continue
                if str(self.folder) in where + words and "watchdog" not in words:
                    found.append(words)
        return found


@pytest.fixture
def machine(tmp_path):
    made = Machine(tmp_path)
    yield made
    for entry in Path("/proc").glob("[0-9]*"):  # of a test that failed
        if str(tmp_path) in str((entry / "cwd").readlink() if os.access(entry / "cwd", os.R_OK) else ""):
            os.kill(int(entry.name), signal.SIGKILL)


def test_from_nothing_to_a_report_and_again_without_compiling(machine) -> None:
    process = machine.start("--out", "results/mine", "--set", "hold=30")
    until(lambda: machine.said("the arms are held for 30 minutes") or process.poll() is not None)
    (asks,) = [line.partition(" answers: ")[2] for line in machine.text().splitlines() if " sd answers: curl " in line]
    answer = subprocess.run(["/bin/sh", "-c", asks], capture_output=True, check=False)
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE_S) == 0, machine.text()
    assert "data" in json.loads(answer.stdout), answer
    assert not machine.has("results/mine/keys")
    report = json.loads((machine.folder / "results" / "mine" / "report.json").read_text())
    assert {row["variant"] for row in report["arms"]} == {"base", "sd"}
    assert machine.said("nothing of this run is running any more")
    assert machine.processes() == []
    assert not machine.has("results/mine/scratch")
    named = report["context"]["artifacts"]
    assert {arm: where.split(", SHA-256 of its files ")[1] for arm, where in named.items()}.keys() == {"base", "sd"}
    assert all(where in (machine.folder / "results" / "mine" / "report.html").read_text() for where in named.values())
    stored = (machine.folder / "results" / "mine" / "logs" / "serve-base.log").read_text()
    assert "every byte is as stored" in stored
    asked = ["--skip-compile", "--ask", "1, 2, 3,", "--arm", "sd", "--max-tokens", "8", "--temperature", "0.5"]
    assert machine.run(*asked) == 0, machine.text()
    assert machine.said("--temperature 0.5 is ignored")
    assert machine.said("(8 tokens in ")
    assert machine.said("the artifact of sd is here: nothing to compile")
    assert machine.processes() == []


@pytest.mark.parametrize(
    "moment", [pytest.param(each, marks=[pytest.mark.slow] if each != "serving" else []) for each in MOMENTS]
)
def test_a_killed_run_leaves_nothing_and_a_resumed_one_finishes(machine, moment: str) -> None:
    process = machine.start("--out", "results/mine")
    until(lambda: MOMENTS[moment](machine) or process.poll() is not None)
    assert process.poll() is None, machine.text()
    process.send_signal(signal.SIGKILL)
    process.wait()
    until(lambda: machine.processes() == [], "its watchdog ends what it left")
    assert machine.run("--out", "results/mine", "--resume") == 0, machine.text()
    assert machine.has("results/mine/report.html")
    assert machine.processes() == []


def test_a_watchdog_waits_until_the_dead_command_has_let_go_of_the_store(tmp_path) -> None:
    lock, mark = tmp_path / "lock", "a-dead-run"
    holder = f"import fcntl, time; f = open({str(lock)!r}, 'w'); fcntl.flock(f, fcntl.LOCK_EX); print(1, flush=True)"
    with subprocess.Popen([sys.executable, "-c", f"{holder}; time.sleep(0.7)"], stdout=subprocess.PIPE) as dying:
        assert dying.stdout is not None and dying.stdout.readline()
        left = subprocess.Popen(["/bin/sleep", "300"], env={**os.environ, MARK: mark})
        watchdog = [*WATCHDOG, str(lock), mark, "--venv", str(tmp_path)]
        subprocess.run(watchdog, stdin=subprocess.DEVNULL, check=True, timeout=PATIENCE_S)
    assert left.wait(timeout=PATIENCE_S) == -signal.SIGKILL


def test_ctrl_c_ends_in_order_and_says_how_to_go_on(machine) -> None:
    process = machine.start("--out", "results/mine")
    until(lambda: machine.runs("serve-base"))
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE_S) == 1
    assert machine.processes() == []
    assert machine.said(f"stopped; the same command with --resume --out {machine.folder}/results/mine goes on")


def test_the_next_start_ends_what_a_dead_watchdog_left(machine) -> None:
    process = machine.start("--out", "results/mine")
    until(lambda: machine.runs("serve-base"))
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_text()
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if "instance.watchdog" in words and parent == process.pid:
            os.kill(int(entry.name), signal.SIGKILL)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert machine.processes()
    assert machine.run("--out", "results/mine", "--resume") == 0, machine.text()
    assert machine.said("an earlier run left ")
    assert machine.processes() == []


@pytest.mark.slow
def test_an_environment_serves_the_same_without_containers(machine) -> None:
    shutil.rmtree(machine.folder / "bin")
    assert machine.run("--venv", str(machine.image), "--in-turn", "--out", "results/mine") == 0, machine.text()
    assert machine.has("results/mine/report.html")
    assert machine.said("smoke test of wave 2 of 2")
    assert machine.processes() == []


@pytest.mark.slow
def test_the_printed_script_does_the_run_too(machine) -> None:
    process = machine.script()
    assert process.wait(PATIENCE_S) == 0, machine.text()[-4000:]
    assert machine.said("4 of 4 requests") or machine.said("against base"), machine.text()[-2000:]
    assert machine.processes() == []


def test_a_second_printed_script_ends_at_once_and_leaves_the_first_alone(machine) -> None:
    first = machine.script()
    until(lambda: machine.runs("compile-base") or first.poll() is not None)
    env = {"PATH": f"{machine.folder / 'bin'}:/usr/bin:/bin", "REHEARSAL_DOCKER": str(machine.docker)}
    second = machine.program(["dash", "run.sh"], env)
    assert second.wait(PATIENCE_S) == 3 and machine.said(f"another run uses {machine.folder}/store")
    assert first.poll() is None and machine.runs("compile-base"), machine.text()[-2000:]
    first.terminate()
    assert first.wait(PATIENCE_S) == 128 + signal.SIGTERM
    until(lambda: machine.processes() == [])


@pytest.mark.slow
@pytest.mark.parametrize("contained", [True, False])
def test_a_signal_ends_all_that_the_printed_script_started(machine, contained: bool) -> None:
    long = ["--set", "workload.requests=2000"]
    process = machine.script(*long, *([] if contained else ["--venv", str(machine.image)]))
    until(lambda: list(machine.folder.glob("results/*/raw")) or process.poll() is not None)
    number = signal.SIGINT if contained else signal.SIGTERM
    (os.killpg if contained else os.kill)(process.pid, number)
    assert process.wait(PATIENCE_S) == 128 + number, machine.text()[-4000:]
    until(lambda: machine.processes() == [])


def test_all_that_is_missing_is_told_at_once(machine) -> None:
    shutil.rmtree(machine.folder / "store" / "imports" / "pair-draft")
    assert machine.run("--venv", str(machine.folder)) == 3
    told = machine.text()
    assert "2 problems" in told
    assert f"{machine.folder}/bin has no vllm and no python3" in told
    assert f"put its files into {machine.folder}/store/imports/pair-draft/" in told


def test_the_stand_in_refuses_what_it_does_not_know(machine) -> None:
    env = os.environ | {"REHEARSAL_DOCKER": str(machine.docker)}
    for words in (["run", "--privileged", "image"], ["pull", "image"], ["exec", "name"]):
        assert subprocess.run([DOCKER, *words], env=env, capture_output=True, check=False).returncode == 125
