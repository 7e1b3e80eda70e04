"""A run on this machine, from its first model to its last server. What was done before is not done again.

Whatever ends it, nothing goes on: its watchdog sees to that if it is killed, and the next start looks again.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote

from specdecode import finished, manifests, names, s3_keys
from specdecode.benchmark.place import S3Folder
from specdecode.benchmark.results import replace_file
from specdecode.exit_codes import Exit
from specdecode.experiment.prompt_lengths import longest_prompt
from specdecode.instance import engines
from specdecode.instance.containers import MARK, Containers, Tool, end, held, sweep
from specdecode.instance.engines import EngineRun, Folders, Program
from specdecode.instance.s3_copies import bring, remove, send
from specdecode.manifests.naming import RenderContext, service_host_variable
from specdecode.planning import Arm, Plan, Wave, last_served
from specdecode.pod import smoke
from specdecode.pod.bucket import FolderClient
from specdecode.store import Store

MEASURED = "measured.json"
"""Waves that are measured whole, in the results folder."""
TAIL = 15
"""Lines of a log that a message shows."""
LOOK_EVERY_S = 0.5
WATCHDOG = (sys.executable, "-P", "-m", "specdecode.instance.watchdog")
WATCHDOG_S = 30.0
"""Seconds for which a start waits for the watchdog of a run that was killed: it holds the store meanwhile."""


class RunFailed(Exception):
    """The run cannot go on. The message says what failed, and where its log is."""


class InUse(Exception):
    """Another run uses the store."""


@dataclass(kw_only=True)
class InstanceRun:
    """One run. `say` gets lines of progress."""

    plan: Plan
    tool: Tool
    at: Folders
    ctx: RenderContext
    say: Callable[[str], None]
    artifacts: S3Folder | None = None
    """Where artifacts are kept beside the store."""
    _running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    _began: bool = False

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
                shutil.rmtree(self.at.work, ignore_errors=True)
                watchdog.communicate(b".")
                if self._began:
                    self.say("nothing of this run is running any more")

    def prepare(self, *, compiles: bool = True, arms: Sequence[str] | None = None) -> None:
        """Image, models, prompts and artifacts, of all arms or of some: servers compare them with what is here now.

        Raises RunFailed.
        """
        self._began = True
        if isinstance(self.tool, Containers) and not self.tool.has_image(self.plan.engine.reference):
            self.say(f"pull {self.plan.engine.reference}")
            if subprocess.run(
                [self.tool.program, "pull", self.plan.engine.reference], stdout=2, check=False
            ).returncode:
                raise RunFailed(f"{self.tool.program} cannot pull {self.plan.engine.reference}: its answer is above")
        for program in engines.programs_before(self.plan, self.ctx):
            self.run(program, self.at.of("fetch"))
        for prefix, arm in engines.artifacts(self.plan):
            if arms is None or any(self._arm(name).fingerprint == arm.fingerprint for name in arms):
                self._artifact(prefix, arm, compiles=compiles)
        folders = [item.model.prefix for item in self.plan.models] + [each for each, _ in engines.artifacts(self.plan)]
        contents = {prefix: found for prefix in folders if (found := self._found(prefix).content)}
        self.ctx = self.ctx.model_copy(update={"contents": contents})

    @property
    def artifacts_here(self) -> dict[str, str]:
        """Arm -> its artifact, and the hash that its server compares."""
        arms = {arm.variant: s3_keys.compiled_prefix(arm.fingerprint) for wave in self.plan.waves for arm in wave.arms}
        known = self.ctx.contents
        return {
            arm: f"{self.at.store / prefix}, SHA-256 of its files {known[prefix]}"
            for arm, prefix in arms.items()
            if prefix in known
        }

    def _found(self, prefix: str) -> finished.Found:
        return finished.find(Store(s3=FolderClient(self.at.store), bucket=str(self.at.store)), prefix)

    def _arm(self, variant: str) -> Arm:
        return next(arm for wave in self.plan.waves for arm in wave.arms if arm.variant == variant)

    def _artifact(self, prefix: str, arm: Arm, *, compiles: bool) -> None:
        found = self._found(prefix)
        if found.content:
            self.say(f"the artifact of {arm.variant} is here: nothing to compile")
            return
        remove(self.at.store / prefix)
        if found.damage:
            self.say(f"the artifact of {arm.variant} was damaged and is deleted: {found.damage}")
        try:
            if self.artifacts and bring(prefix, self.at.store, self.artifacts):
                self.say(f"brought the artifact of {arm.variant} from S3: nothing to compile")
                return
        except finished.Damaged as error:
            self.say(f"the artifact of {arm.variant} in S3 is damaged, and nothing of it is kept: {error}")
            remove(self.at.store / prefix)
        if not compiles:
            raise RunFailed(f"{self.at.store / prefix} is no finished artifact: leave out --skip-compile to make it")
        run = engines.compiler(self.plan, arm, self.ctx, self.at)
        self.say(f"compile {arm.variant} ({self.plan.experiment.deadlines.compile} minutes at most)")
        process = self._start(run)
        while process.poll() is None:
            time.sleep(LOOK_EVERY_S)
        del self._running[run.name]
        if process.returncode:
            raise self._ended(run, process.returncode)
        self.run(engines.keeping(arm, self.plan, self.ctx), self.at.of(run.name))
        if self.artifacts:
            send(prefix, self.at.store, self.artifacts)
            self.say(f"copied the artifact of {arm.variant} to S3")

    def measure(self) -> None:
        """Serve and load the arms, wave by wave. Raises RunFailed."""
        for wave in self.plan.waves:
            if wave.index in self._measured():
                self.say(f"wave {wave.index + 1} of {len(self.plan.waves)} is measured")
                continue
            with self.serving(wave.arms) as (runs, keys):
                for program in asked(self.plan, wave, self.ctx, runs):
                    self.run(program, self.client_folder(), keys)
                    self._check_alive(runs)
                done = sorted({*self._measured(), wave.index})
                replace_file(self.at.results / MEASURED, json.dumps(done).encode())
                self._hold(wave, runs, keys)

    def _measured(self) -> set[int]:
        path = self.at.results / MEASURED
        return set(json.loads(path.read_bytes())) if path.exists() else set()

    @contextmanager
    def serving(self, arms: Sequence[Arm]) -> Iterator[tuple[list[EngineRun], dict[str, str]]]:
        """The servers of `arms`, side by side, once all are healthy; their keys by variable. Raises RunFailed."""
        runs = [engines.server(self.plan, arm, self.ctx, self.at, place=n) for n, arm in enumerate(arms)]
        keys = {}
        for arm, run in zip(arms, runs, strict=True):
            key = manifests.new_api_key()
            keys[names.api_key_variable(arm.variant)] = key
            on = f" on Neuron devices {run.devices[0]}-{run.devices[-1]}" if run.devices else ""
            self.say(f"serve {arm.variant}{on} at {run.url}")
            self._start(run, dict.fromkeys(run.secrets, key))
        until = time.monotonic() + 60 * self.plan.experiment.deadlines.serve
        for run in runs:
            while not smoke.healthy(f"{run.url}/health"):
                self._check_alive(runs)
                if time.monotonic() > until:
                    limit = f"deadlines.serve is {self.plan.experiment.deadlines.serve} minutes"
                    raise RunFailed(f"{run.name} is not healthy in time ({limit}):\n{self._tail(run.name)}")
                time.sleep(LOOK_EVERY_S)
            self.say(f"{run.name} is healthy")
        yield runs, keys
        self._stop_all()

    def _hold(self, wave: Wave, runs: Sequence[EngineRun], keys: Mapping[str, str]) -> None:
        """Keep the arms that no later wave serves for the minutes of the experiment's `hold`, or until Ctrl-C."""
        minutes, last = self.plan.experiment.holds_arms, last_served(self.plan.waves, wave)
        if not (minutes and last):
            return
        folder = self.at.results / "keys"
        folder.mkdir(mode=0o700, exist_ok=True)
        try:
            for arm, run in zip(wave.arms, runs, strict=True):
                if arm in last:
                    (folder / arm.variant).write_text(keys[names.api_key_variable(arm.variant)])
                    key = f"$(cat {quote(str(folder / arm.variant))})"
                    self.say(f'{arm.variant} answers: curl {run.url}/v1/models -H "Authorization: Bearer {key}"')
            self.say(f"the arms are held for {minutes} minutes; Ctrl-C ends that, and the report follows")
            until = time.monotonic() + 60 * minutes
            with suppress(KeyboardInterrupt):
                while time.monotonic() < until:
                    self._check_alive(runs)
                    time.sleep(LOOK_EVERY_S)
        except RunFailed as error:
            self.say(f"{error}\nEverything was measured before.")
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def client_folder(self) -> Path:
        """Working directory of the programs that ask: models for the tokenizer, sets of prompts that do not ship."""
        folder, prompts = self.at.of("client"), self.at.results / "prompts"
        if (self.at.store / "prompts").is_dir() and not prompts.exists():
            shutil.copytree(self.at.store / "prompts", prompts)
        folder.mkdir(parents=True, exist_ok=True)
        for name, target in (("models", self.at.store / "models"), ("prompts", prompts)):
            if not (folder / name).is_symlink():
                (folder / name).symlink_to(target)
        return folder

    def run(self, program: Program, folder: Path, secrets: Mapping[str, str] | None = None) -> None:
        """Run a program of ours. Raises RunFailed if it fails; it has said why."""
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
        code = process.wait()
        del self._running[program.title]
        if code:
            raise RunFailed(f"{program.title}: ended with {code}; what it said is above")

    def _start(self, run: EngineRun, secrets: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
        shutil.rmtree(self.at.of(run.name), ignore_errors=True)
        for mount in run.mounts:
            mount.source.mkdir(parents=True, exist_ok=True)
        self._log(run.name).parent.mkdir(parents=True, exist_ok=True)
        with self._log(run.name).open("ab") as log:
            self._running[run.name] = self.tool.start(run, secrets or {}, log)
        return self._running[run.name]

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
        """Why a container of the engine ended. A damaged artifact is deleted: the next start gets another."""
        told = f"{run.name} ended with {code}:\n{self._tail(run.name)}"
        arm = self._arm(run.name.partition("-")[2])
        if code == Exit.DAMAGED_ARTIFACT:
            folder = self.at.store / s3_keys.compiled_prefix(arm.fingerprint)
            remove(folder)
            told += f"\n{folder} was damaged and is deleted: the next start "
            told += "brings it from S3 if it is whole there, or makes it anew" if self.artifacts else "makes it anew"
        elif code == Exit.DAMAGED_MODEL:
            models = self.plan.served.models_of(self.plan.served.variant(arm.variant))
            folders = " or ".join(str(self.at.store / model.prefix) for model in models)
            told += f"\nDelete the damaged model, and it is fetched anew: {folders}"
        return RunFailed(told)

    def _log(self, name: str) -> Path:
        return self.at.results / "logs" / f"{name}.log"

    def _tail(self, name: str) -> str:
        lines = self._log(name).read_text("utf-8", "replace").splitlines()[-TAIL:]
        return "\n".join([*lines, f"All of it: {self._log(name)}"])


def asked(plan: Plan, wave: Wave, ctx: RenderContext, runs: Sequence[EngineRun]) -> list[Program]:
    """The programs that ask the servers of a wave: the smoke test, the benchmark."""
    hosts = {
        service_host_variable(manifests.serving_name(arm, ctx)): run.address
        for arm, run in zip(wave.arms, runs, strict=True)
    }
    of_smoke = manifests.smoke(plan, wave, ctx, longest_prompt(plan.experiment, {}))
    shown = f"wave {wave.index + 1} of {len(plan.waves)}"
    return [
        engines.asking(of_smoke, f"smoke test of {shown}", hosts),
        engines.asking(manifests.benchmark(plan, wave, ctx), f"benchmark of {shown}", hosts, ["--out", "../.."]),
    ]
