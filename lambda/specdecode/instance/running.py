"""What a run on this machine has started, and how all of it ends.

Whatever ends the command, nothing goes on: its watchdog sees to that if it is killed, and the next start looks again.
"""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from specdecode import finished, s3_keys
from specdecode.benchmark.place import S3Folder
from specdecode.escape import counted
from specdecode.exit_codes import Exit
from specdecode.instance.containers import MARK, Containers, Tool, end, held, sweep
from specdecode.instance.engines import EngineRun, Folders, Program
from specdecode.manifests.naming import RenderContext
from specdecode.planning import Arm, Plan
from specdecode.pod.bucket import FolderClient, remove
from specdecode.store import Store

LOOK_EVERY_S = 0.5
TAIL = 15
"""Lines of a log that a message shows."""
WATCHDOG = (sys.executable, "-P", "-m", "specdecode.instance.watchdog")
WATCHDOG_S = 30.0
"""Seconds for which a start waits for the watchdog of a run that was killed: it holds the store meanwhile."""


class RunFailed(Exception):
    """The run cannot go on. The message says what failed, and where its log is."""


class InUse(Exception):
    """Another run uses the store."""


@dataclass(kw_only=True)
class Running:
    """The programs and containers of one run. `say` gets lines of progress."""

    plan: Plan
    tool: Tool
    at: Folders
    ctx: RenderContext
    say: Callable[[str], None]
    artifacts: S3Folder | None = None
    """Where artifacts are kept beside the store."""
    _running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    _log_begins: dict[str, int] = field(default_factory=dict)
    """Size of a log when its program began: a resumed run writes on."""
    _began: bool = False

    @property
    def _store(self) -> Store:
        return Store(s3=FolderClient(self.at.store), bucket=str(self.at.store))

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Hold the store, with a watchdog; end everything afterwards. Raises InUse."""
        self.at.store.mkdir(parents=True, exist_ok=True)
        lock = self.at.store / ".lock"
        with ExitStack() as stack:
            try:
                stack.enter_context(held(lock, patience_s=WATCHDOG_S))
            except BlockingIOError:
                raise InUse(f"another run uses {self.at.store}: wait for it, or choose another --store") from None
            self._end_leftovers("an earlier run left")
            watchdog = subprocess.Popen(
                [*WATCHDOG, str(lock), self.tool.mark, *self.tool.words],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            try:
                yield
            finally:
                self._stop_all()
                self._end_leftovers("this run left")
                watchdog.communicate(b".")
                if self._began:  # else the folder may be no run's
                    shutil.rmtree(self.at.work, ignore_errors=True)
                    self.say("nothing of this run is running any more")

    def _arm(self, variant: str) -> Arm:
        return next(arm for wave in self.plan.waves for arm in wave.arms if arm.variant == variant)

    def run(
        self,
        program: Program,
        folder: Path,
        secrets: Mapping[str, str] | None = None,
        *,
        accepts: int = 0,
        asks: Sequence[EngineRun] = (),
    ) -> int:
        """Run a program of ours, which needs the servers `asks`, and return how it ended. Raises RunFailed unless that
        is 0 or `accepts`, and it has said why; or as `_wait` does.
        """
        self.say(program.title)
        for path, text in program.files:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text, encoding="utf-8")
        folder.mkdir(parents=True, exist_ok=True)
        own = {"PYTHON": sys.executable, "BUCKET": str(self.at.store), MARK: self.tool.mark}
        process = subprocess.Popen(
            ["/bin/sh", "-c", f'exec "$PYTHON" -P -m {program.words}'],
            cwd=folder,
            env=os.environ | program.env | own | dict(secrets or {}),
            stdin=subprocess.DEVNULL,
            stdout=2,
            start_new_session=True,
        )
        self._running[program.title] = process
        code = self._wait(program.title, program.deadline, asks)
        if code not in (0, accepts):
            raise RunFailed(f"{program.title}: ended with {code}; what it said is above")
        return code

    def _start(self, run: EngineRun, secrets: Mapping[str, str] | None = None) -> None:
        shutil.rmtree(self.at.of(run.name), ignore_errors=True)
        for mount in run.mounts:
            mount.source.mkdir(parents=True, exist_ok=True)
        self._log(run.name).parent.mkdir(parents=True, exist_ok=True)
        with self._log(run.name).open("ab") as log:
            self._log_begins[run.name] = log.tell()
            self._running[run.name] = self.tool.start(run, secrets or {}, log)

    def _wait(self, name: str, deadline: str, needs: Sequence[EngineRun] = ()) -> int:
        """Wait for what runs as `name`, and return how it ended. Raises RunFailed once one of `needs` has ended, or the
        time of this field of `deadlines` is over.
        """
        process, minutes = self._running[name], getattr(self.plan.experiment.deadlines, deadline)
        until = time.monotonic() + 60 * minutes
        while process.poll() is None and time.monotonic() < until:
            self._check_alive(needs)
            with suppress(subprocess.TimeoutExpired):
                process.wait(LOOK_EVERY_S)
        self._check_alive(needs)
        if process.returncode is None:
            raise RunFailed(f"{name} does not end in time (deadlines.{deadline} is {counted(minutes, 'minute')})")
        del self._running[name]
        return process.returncode

    def _stop_all(self) -> None:
        while self._running:
            name, process = self._running.popitem()
            is_engine = process.poll() is None and name.startswith(("serve-", "compile-"))
            if is_engine and isinstance(self.tool, Containers):
                self.tool.stop(name)
            end(process)

    def _end_leftovers(self, who: str) -> None:
        if found := sweep(self.tool):
            self.say(f"{who} {', '.join(found)} running: ended")

    def _check_alive(self, runs: Sequence[EngineRun]) -> None:
        for run in runs:
            if (code := self._running[run.name].poll()) is not None:
                raise self._ended(run, code)

    def _ended(self, run: EngineRun, code: int) -> RunFailed:
        """Why a container of the engine ended. What it found damaged counts no more: the next start gets it anew."""
        told = f"{run.name} ended with {code}:\n{self._tail(run.name)}"
        arm = self._arm(run.name.partition("-")[2])
        try:
            told += self._cleared(run, arm, code)
        except OSError as error:
            told += f"\n{error}\nThe damaged folder is still there: delete it, or move it away, yourself"
        return RunFailed(told)

    def _cleared(self, run: EngineRun, arm: Arm, code: int) -> str:
        """Set aside what this end says is damaged; what the user is told of it. Raises OSError."""
        if code == Exit.DAMAGED_ARTIFACT:
            folder = self.at.store / s3_keys.compiled_prefix(arm.fingerprint)
            remove(folder)
            anew = "brings it from S3 if it is whole there, or makes it anew" if self.artifacts else "makes it anew"
            return f"\n{folder} was damaged and is deleted: the next start {anew}"
        if code == Exit.DAMAGED_MODEL:
            models = self.plan.served.models_of(self.plan.served.variant(arm.variant))
            log = self._log(run.name).read_bytes()[self._log_begins[run.name] :]
            named = [model for model in models if f"{model.prefix} is damaged".encode() in log] or models
            for model in named:
                finished.set_aside(self._store, model.prefix)
            ids = " and ".join(model.id for model in named)
            return f"\n{ids}: set aside; the next start fetches again what is damaged, and keeps whole files"
        return ""

    def _log(self, name: str) -> Path:
        return self.at.results / "logs" / f"{name}.log"

    def _tail(self, name: str) -> str:
        lines = self._log(name).read_text("utf-8", "replace").splitlines()[-TAIL:]
        return "\n".join([*lines, f"All of it: {self._log(name)}"])
