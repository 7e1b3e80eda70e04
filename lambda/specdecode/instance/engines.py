"""The engine's containers of a run, taken from the pods that the cluster would get: one source for every line of them.

A folder (`store`) stands for the bucket. Programs of ours run on the machine itself, with the words that the pods have.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import specdecode
from specdecode import manifests, names, s3_keys
from specdecode.exit_codes import Exit
from specdecode.experiment.prompt_sets import hub_sets
from specdecode.experiment.shapes import CORES_PER_DEVICE
from specdecode.experiment.variants import ModelRef
from specdecode.manifests.bundle import StepJob
from specdecode.manifests.compiling import COMPILE
from specdecode.manifests.naming import RenderContext
from specdecode.manifests.pods import CONTAINER, KubeObject, word
from specdecode.planning import Arm, Plan

STREAMS = 16
"""Files of a model that are read at once: an NVMe disk is faster than one stream."""


@dataclass(frozen=True, kw_only=True)
class Folders:
    """Where a run keeps what."""

    store: Path
    """In place of the bucket: models/, compiled/, imports/, prompts/. Later runs find it."""
    results: Path
    """The run's own folder, as the bucket's runs/<run id>/."""

    @property
    def work(self) -> Path:
        """What is gone with the run."""
        return self.results / "scratch"

    def of(self, name: str) -> Path:
        """The working directory of a container, with its /tmp beside it."""
        return self.work / name


@dataclass(frozen=True, kw_only=True)
class Mount:
    """A folder of the machine, and the path that a container sees it at."""

    source: Path
    target: str
    read_only: bool = False

    @property
    def volume(self) -> str:
        """As `docker run --volume` takes it."""
        return f"{self.source}:{self.target}{':ro' if self.read_only else ''}"


@dataclass(frozen=True, kw_only=True)
class EngineRun:
    """One container of the engine."""

    name: str
    """Unique among the containers of a run."""
    image: str
    script: str
    """What `/bin/sh -c` runs, as in the pod."""
    env: dict[str, str]
    secrets: tuple[str, ...]
    """Variables whose values are not shown."""
    mounts: tuple[Mount, ...]
    """The first is the working directory."""
    devices: tuple[int, ...]
    """Numbers of the Neuron devices that it gets."""
    cores: str
    """The logical NeuronCores of these devices, as NEURON_RT_VISIBLE_CORES takes them. Empty without devices."""
    shm: str
    """Shared memory, as `docker run --shm-size` takes it."""
    address: str
    """Where its server listens."""

    @property
    def inner(self) -> dict[Path, str]:
        """Folders that the container sees below its working directory, and their paths there."""
        below = f"{names.WORKDIR}/"
        return {each.source: each.target[len(below) :] for each in self.mounts if each.target.startswith(below)}

    @property
    def url(self) -> str:
        return f"http://{self.address}:{names.SERVE_PORT}"


def render_context(run_id: str) -> RenderContext:
    """The pods' context. `ebs`: models lie on a disk of the machine already, so that no pod copies them again."""
    return RenderContext.without_bucket(run_id, bucket="store", node_storage="ebs")


def compiler(plan: Plan, arm: Arm, ctx: RenderContext, at: Folders) -> EngineRun:
    """The container that compiles for `arm`."""
    pod = manifests.compile_job(plan, arm, ctx).job["spec"]["template"]["spec"]
    return _engine_run(plan, pod, _named(pod["initContainers"], COMPILE), at, name=f"compile-{arm.variant}", place=0)


def server(plan: Plan, arm: Arm, ctx: RenderContext, at: Folders, *, place: int) -> EngineRun:
    """The container that serves `arm`. `place`: its number among those that run side by side."""
    pod = manifests.serving(plan, arm, ctx)[0]["spec"]["template"]["spec"]
    return _engine_run(plan, pod, _named(pod["containers"], CONTAINER), at, name=f"serve-{arm.variant}", place=place)


def address(at: Folders, place: int) -> str:
    """127.0.0.0/8 is this machine (Linux, ip(7)). Each store has addresses of its own: runs on two do not meet."""
    first, second, *_ = sha256(str(at.store).encode()).digest()
    return f"127.{64 + first % 128}.{second}.{place + 1}"


def _engine_run(plan: Plan, pod: KubeObject, main: KubeObject, at: Folders, *, name: str, place: int) -> EngineRun:
    serving, own = plan.served.serving, at.of(name)
    env, secrets = {"POD_IP": address(at, place)}, []
    for each in main["env"]:
        if "value" in each:
            env[each["name"]] = _plain(each["value"])
        elif "secretKeyRef" in each["valueFrom"]:
            secrets.append(each["name"])
    taken = serving.devices if plan.engine.on_neuron else 0
    devices = tuple(range(place * taken, (place + 1) * taken))
    cores = taken * CORES_PER_DEVICE // serving.logical_neuron_core
    (shm,) = [each["emptyDir"]["sizeLimit"] for each in pod["volumes"] if each["name"] == "shm"]
    return EngineRun(
        name=name,
        image=main["image"],
        script=_plain(main["command"][-1]),
        env=env,
        secrets=tuple(secrets),
        mounts=tuple(_mounts(main["volumeMounts"], at, own, compiles=name.startswith("compile"))),
        devices=devices,
        cores=f"{place * cores}-{(place + 1) * cores - 1}" if cores else "",
        shm=shm.removesuffix("i").lower(),
        address=env["POD_IP"],
    )


def _mounts(given: Sequence[dict[str, Any]], at: Folders, own: Path, *, compiles: bool) -> Iterator[Mount]:
    for each in given:
        name, target, read_only = each["name"], each["mountPath"], each.get("readOnly", False)
        if name == "shm":
            continue
        if name == "bundle":  # the part of it that needs no other package
            yield Mount(source=Path(specdecode.__file__).parent, target=f"{target}/specdecode", read_only=True)
        elif name in ("work", "tmp") or (name == "compiled" and compiles):
            yield Mount(source=own / name, target=target)
        else:
            yield Mount(source=at.store / name, target=target, read_only=read_only)


def _named(containers: Iterable[KubeObject], name: str) -> KubeObject:
    return next(each for each in containers if each["name"] == name)


def _plain(text: str) -> str:
    """`text` as Kubernetes hands it on: it replaces `$$` by `$` (Kubernetes, "Use environment variables")."""
    return text.replace("$$", "$")


@dataclass(frozen=True, kw_only=True)
class Program:
    """A program of ours, as a pod runs it: words of shell source after `python3 -m`."""

    title: str
    words: str
    deadline: str
    """The field of `deadlines` that says how long it may take."""
    files: tuple[tuple[str, str], ...] = ()
    """What it reads below its working directory: path and content."""
    env: dict[str, str] = field(default_factory=dict)


def fetching(model: ModelRef, plan: Plan, ctx: RenderContext) -> Program:
    """The program that brings a model. `$BUCKET` is the store."""
    words = _words(manifests.staging_job(plan, model, ctx).job)
    return Program(title=f"fetch {model.id}", words=words, deadline="staging")


def fetching_prompts(plan: Plan, ctx: RenderContext) -> list[Program]:
    """The programs that bring sets of prompts."""
    return [
        Program(
            title=f"fetch the prompts {given.set}",
            words=_words(manifests.fetch_prompts_job(plan, given, hub, ctx).job),
            deadline="staging",
        )
        for given, hub in hub_sets(plan.experiment)
    ]


def comparing(model: ModelRef) -> Program:
    """The program that reads every byte of a model, as a serving pod does. It works in the store, and ends with
    DAMAGED_MODEL if the model is not as it was stored.
    """
    folder = {"name": model.prefix.rstrip("/"), "content": "", "copied": False, "code": Exit.DAMAGED_MODEL.value}
    given = word(json.dumps({"local": ".", "streams": STREAMS, "folders": [folder]}))
    title = f"compare {model.id} ({model.size_gib:g} GiB) with what was stored"
    quiet = {"PYTHONWARNINGS": "ignore::RuntimeWarning"}  # of -m: the package has imported the module already
    return Program(title=title, words=f"specdecode.manifests.verified_copy {given}", deadline="compile", env=quiet)


def keeping(arm: Arm, plan: Plan, ctx: RenderContext) -> Program:
    """The program that verifies what the compiler left, and puts it into the store."""
    words = _words(manifests.compile_job(plan, arm, ctx).job)
    return Program(title=f"keep the artifact of {arm.variant}", words=words, deadline="compile")


def asking(work: StepJob, title: str, hosts: dict[str, str], more: Sequence[str] = ()) -> Program:
    """A program that asks servers. `hosts`: what Kubernetes says of the Services. `more`: in place of `--upload …`."""
    kept = _words(work.job).split(" --upload ")[0]
    files = tuple(
        (f"{volume['name']}/{path}", text)
        for each in work.config
        for volume in work.job["spec"]["template"]["spec"]["volumes"]
        if "configMap" in volume
        for path, text in each["data"].items()
    )
    return Program(title=title, words=" ".join([kept, *more]), deadline="benchmark", files=files, env=hosts)


def _words(job: KubeObject) -> str:
    """The last line of the pod's script, without `exec python3 -m`."""
    (main,) = job["spec"]["template"]["spec"]["containers"]
    return _plain(main["command"][-1]).rpartition("\nexec python3 -m ")[2]


def artifacts(plan: Plan) -> list[tuple[str, Arm]]:
    """Prefix of each artifact of the run, and the arm that it is made from."""
    return [(s3_keys.compiled_prefix(each.fingerprint), each.arm) for each in plan.artifacts]
