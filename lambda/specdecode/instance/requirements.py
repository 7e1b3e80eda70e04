"""What must be here before a run begins: every problem at once, each with what to do."""

import math
import os
import shutil
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path

from specdecode import names, s3_keys
from specdecode.escape import counted
from specdecode.experiment.capacity import COPY_MARGIN
from specdecode.experiment.prompt_sets import bucket_sets, hub_sets
from specdecode.instance.containers import Environment, Tool
from specdecode.instance.engines import EngineRun, Folders
from specdecode.manifests.compiling import SPARE_GIB
from specdecode.manifests.early import DEVICES, DRIVER_VERSION
from specdecode.planning import Plan
from specdecode.pod.bucket import FolderClient, link_in_place_of
from specdecode.pod.sources import hub_token
from specdecode.store import Store

SMALL_GIB = 1
"""Local disk for an engine of small models on a CPU."""


def problems(plan: Plan, tool: Tool | None, runs: Sequence[EngineRun], at: Folders) -> list[str]:
    """Why the run cannot begin here; empty if it can. `runs`: the containers of the wave with the most."""
    return [
        *_tool(plan, tool, runs),
        *_devices(plan, runs),
        *_disk(plan, at.store),
        *_inputs(plan, at.store),
        *_ports(runs),
    ]


def _tool(plan: Plan, tool: Tool | None, runs: Sequence[EngineRun]) -> Iterator[str]:
    if tool is None:
        yield "neither docker nor podman is on the PATH: install one, or name an environment with the engine: --venv"
    elif why := tool.answers():
        wrong = "give the folder of an environment that the engine is installed in"
        fix = wrong if isinstance(tool, Environment) else "start its service, or get the right to use it"
        yield f"{why}: {fix}"
    # Workers of the native plugin refuse the variable that keeps processes of one machine apart.
    if isinstance(tool, Environment) and len(runs) > 1 and "unset NEURON_RT_VISIBLE_CORES" in runs[0].script:
        yield f"{plan.engine.name} cannot serve {len(runs)} arms side by side without containers: add --in-turn"


def _devices(plan: Plan, runs: Sequence[EngineRun]) -> Iterator[str]:
    if not plan.engine.on_neuron:
        return
    here = sorted(Path(DEVICES).parent.glob(f"{Path(DEVICES).name}[0-9]*"))
    needed = 1 + max(number for run in runs for number in run.devices)
    if len(here) < needed:
        one = "" if len(runs) == 1 else "; --in-turn serves one arm after the other"
        yield f"{needed} Neuron devices are needed, and {len(here)} are here ({DEVICES}*){one}"
    if shut := [each for each in here if not os.access(each, os.R_OK | os.W_OK)]:
        yield f"you may not open {shut[0]}: take a user who may, or sudo chmod 666 {DEVICES}*"
    driver = Path(DRIVER_VERSION)
    version = driver.read_text("utf-8").strip() if driver.exists() else ""
    if here and version and not plan.engine.runtime.takes_driver(version):
        takes = plan.engine.runtime.newest_driver
        yield f"the Neuron driver is {version}, and runtime {plan.engine.runtime.version} takes {takes}: install that"


def _disk(plan: Plan, store: Path) -> Iterator[str]:
    """Room for what must still be made: models, an artifact as large as its weights, and the compiler's own files. What
    an earlier start fetched of a model takes no more.
    """
    served, own = plan.served, Store(s3=FolderClient(store), bucket=str(store))
    here = {model: sum(size for size, _ in own.listing(model.prefix).values()) for model in plan.models_to_stage}
    missing = sum(max(0.0, model.size_gib - size / 2**30) for model, size in here.items())
    made = [served.weights_gib(served.variant(arm.variant)) for arm in plan.compiles_to_do]
    spare = SPARE_GIB if plan.engine.on_neuron else SMALL_GIB
    needed = math.ceil(COPY_MARGIN * (missing + sum(made) + max(made, default=0)) + spare)
    folder = next(each for each in (store, *store.parents) if each.exists())
    if (free := shutil.disk_usage(folder).free >> 30) < needed:
        yield f"{folder} has {free} GiB free, and {needed} are needed: make room, or choose another disk with --store"


def _inputs(plan: Plan, store: Path) -> Iterator[str]:
    for model in plan.models_to_stage:
        if why := link_in_place_of(store / model.prefix.rstrip("/")):
            yield why
        own = store / (model.import_prefix or "")
        if model.import_prefix and not (own.is_dir() and any(own.iterdir())):
            yield f"{model.id} is a model of your own: put its files into {own}/"
        if model.gated and hub_token() is None:
            yield f"{model.id} needs a licence: accept it on huggingface.co, and put a token into HF_TOKEN"
    brought = {given.key for given, _ in hub_sets(plan.experiment)}
    for key in bucket_sets(plan.experiment.workload):
        if key not in brought and not (store / key).is_file():
            yield f"a set of prompts is missing: copy its file to {store / key}"


def _ports(runs: Sequence[EngineRun]) -> Iterator[str]:
    for run in runs:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((run.address, names.SERVE_PORT))
            except OSError as error:
                yield f"port {names.SERVE_PORT} of {run.address} is taken ({error.strerror}): end what listens there"


def room_kept(store: Path) -> str:
    """What later runs find in the store, in words."""
    kept = [len(list((store / name).glob(f"*/{s3_keys.COMPLETE}"))) for name in ("models", "compiled")]
    return f"{store} keeps {counted(kept[0], 'model')} and {counted(kept[1], 'compiled artifact')} for later runs"
