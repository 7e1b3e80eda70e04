"""A run on this machine, from its first model to its last server. What was done before is not done again.

Whatever ends it, nothing goes on: its watchdog sees to that if it is killed, and the next start looks again.
"""

import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote

from specdecode import finished, manifests, names, s3_keys
from specdecode.exit_codes import Exit
from specdecode.experiment.prompt_lengths import longest_prompt
from specdecode.experiment.variants import ModelRef
from specdecode.instance import engines
from specdecode.instance.containers import Containers
from specdecode.instance.engines import EngineRun, Program
from specdecode.instance.measured import MeasuredWaves
from specdecode.instance.running import LOOK_EVERY_S, RunFailed, Running
from specdecode.instance.s3_copies import bring, send
from specdecode.manifests.naming import RenderContext, service_host_variable
from specdecode.planning import Arm, Plan, Wave, last_served
from specdecode.planning.measured_with import noted, remade
from specdecode.pod import smoke
from specdecode.pod.bucket import remove


@dataclass(kw_only=True)
class InstanceRun(Running):
    """One run."""

    _compared: set[str] = field(default_factory=set)
    """Prefixes of the models whose bytes are as they were stored."""

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
        for item in self.plan.models:
            seen = self._found(item.model.prefix)
            if not seen.content:
                self._fetch(item.model, damage=seen.damage)
        for program in engines.fetching_prompts(self.plan, self.ctx):
            self.run(program, self.at.of("fetch"))
        for prefix, arm in engines.artifacts(self.plan):
            if arms is None or any(self._arm(name).fingerprint == arm.fingerprint for name in arms):
                self._artifact(prefix, arm, compiles=compiles)
        folders = [item.model.prefix for item in self.plan.models] + [each for each, _ in engines.artifacts(self.plan)]
        contents = {prefix: found for prefix in folders if (found := self._found(prefix).content)}
        self.ctx = self.ctx.model_copy(update={"contents": contents})

    def shown(self) -> tuple[dict[str, str], list[str]]:
        """Arm -> its artifact, and the hashes that its measured servers compared; and a sentence for each folder of the
        store that was made anew after measuring had begun.
        """
        measured = MeasuredWaves.of(self.at.results).measured_with
        arms = {arm.variant: s3_keys.compiled_prefix(arm.fingerprint) for wave in self.plan.waves for arm in wave.arms}
        named = {
            arm: f"{self.at.store / prefix}, SHA-256 of its files {', then '.join(measured[prefix])}"
            for arm, prefix in arms.items()
            if prefix in measured
        }
        return named, [*remade(contents=self.ctx.contents, measured=measured)]

    def _found(self, prefix: str) -> finished.Found:
        return finished.find(self._store, prefix)

    def _fetch(self, model: ModelRef, *, damage: str | None = None) -> None:
        """Bring a model. A damaged one is set aside before: what is whole of it is kept."""
        if damage:
            self.say(f"{model.id} is damaged and is fetched again: {damage}")
            finished.set_aside(self._store, model.prefix)
        self.run(engines.fetching(model, self.plan, self.ctx), self.at.of("fetch"))

    def _compare(self, arm: Arm) -> None:
        """Compare each byte of the models that `arm` is compiled from, once: the artifact may hold the weights."""
        for model in self.plan.served.models_of(self.plan.served.variant(arm.variant)):
            if model.prefix in self._compared:
                continue
            comparing, began = engines.comparing(model), time.monotonic()
            if self.run(comparing, self.at.store, accepts=Exit.DAMAGED_MODEL):
                self._fetch(model, damage="what differs is named above")
            else:
                self.say(f"{model.id} is as it was stored: compared in {time.monotonic() - began:.0f} s")
            self._compared.add(model.prefix)

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
            if self.artifacts and compiles:
                finished.set_aside(self.artifacts.store, f"{self.artifacts.prefix}{prefix}")
        if not compiles:
            raise RunFailed(f"{self.at.store / prefix} is no finished artifact: leave out --skip-compile to make it")
        self._compare(arm)
        run = engines.compiler(self.plan, arm, self.ctx, self.at)
        self.say(f"compile {arm.variant} ({self.plan.experiment.deadlines.compile} minutes at most)")
        self._start(run)
        if code := self._wait(run.name, "compile"):
            raise self._ended(run, code)
        self.run(engines.keeping(arm, self.plan, self.ctx), self.at.of(run.name))
        if self.artifacts:
            if send(prefix, self.at.store, self.artifacts):
                self.say(f"copied the artifact of {arm.variant} to S3")
            else:
                self.say(f"S3 has a whole artifact of {arm.variant} by now: it stays, and this run measures its own")

    def measure(self) -> None:
        """Serve and load the arms, wave by wave. Raises RunFailed."""
        measured = MeasuredWaves.of(self.at.results)
        for wave in self.plan.waves:
            if wave.index in measured.waves:
                self.say(f"wave {wave.index + 1} of {len(self.plan.waves)} is measured")
                continue
            with self.serving(wave.arms) as (runs, keys):
                smoke_test, load = asked(self.plan, wave, self.ctx, runs)
                self.run(smoke_test, self.client_folder(), keys, asks=runs)
                hashes = noted(self.plan, wave.arms, contents=self.ctx.contents, before=measured.measured_with)
                measured = measured.model_copy(update={"measured_with": hashes})
                measured.keep(self.at.results)
                self.run(load, self.client_folder(), keys, asks=runs)
                measured = measured.model_copy(update={"waves": (*measured.waves, wave.index)})
                measured.keep(self.at.results)
                self._hold(wave, runs, keys)

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
