"""What a comparison needs to know of a run besides the experiment and the raw records.

The pipeline's Report state fills it (from state.json, the engines' counters and the price setting); the command
line rebuilds it from a run's folder. Everything except `run_id` and the two times has an honest default, so that
records measured by hand on any two servers can be compared as well.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import Field

from specdecode.experiment.model import CompileOn, Frozen
from specdecode.experiment.shapes import TRN2
from specdecode.planning import SweepStep
from specdecode.records import EngineCounters, SetFacts


class DeviceGroup(Frozen):
    """The Neuron devices that one arm held in one round (as its ResourceClaim was allocated)."""

    variant: str
    unit: int = 0
    """As of a record: which part of a run on several nodes."""
    round: int = 0
    devices: tuple[str, ...]
    """Names of the allocated devices, as the ResourceSlice has them."""
    group: str = ""
    """The DRA driver's device-group id of that arm (`devicegroup8_id` …), empty where the driver gives none."""


class Failure(Frozen):
    """Something that went wrong in the run and a reader must know of."""

    stage: str
    """The state of the state machine, or `benchmark`."""
    variant: str | None = None
    case: str | None = None
    message: str
    diagnostics: str = ""
    """Where to look: a key below the run's folder, or a URL."""


class Accuracy(Frozen):
    """One accuracy score of one arm (lm-eval)."""

    variant: str
    task: str
    metric: str
    value: float
    stderr: float | None = None
    samples: int | None = None


class Served(Frozen):
    """How an arm was served, to be served again."""

    variant: str
    recipe: str
    """Shell source to paste: fetches weights and artifact, then the `vllm serve` line of its pod."""
    artifact: str = ""
    """URL of the compiled artifact; empty where the engine compiles nothing."""


class Compiled(Frozen):
    """Where the artifact of an arm was compiled, in a run that asked for CPU nodes."""

    variant: str
    on: CompileOn
    refused: bool = False
    """What a CPU node had compiled did not load, so that the node compiled it."""


class RunPart(Frozen):
    """A part of a run on several nodes: its own baseline and its share of the arms, on one node."""

    unit: int = Field(ge=0)
    """Its number, which its records have. A part that was tried again elsewhere is another one."""
    node: str = ""
    """Name of the node; empty where unknown."""


class RunContext(Frozen):
    """A run around its records: when, on what, at which price, with which failures."""

    run_id: str
    started_at: datetime
    finished_at: datetime
    price_per_node_hour: float | None = Field(default=None, ge=0)
    """Dollars per hour of the node; None: no cost is reported."""
    node_seconds: float | None = Field(default=None, ge=0)
    """How long a node was held for this run (acquired to released), in seconds; None where unknown."""
    capacity_type: Literal["on-demand", "capacity-block", "odcr", "none"] = "none"
    node: str = ""
    """What the arms ran on: an instance type; empty where there is none of ours (servers that already ran)."""
    parts: tuple[RunPart, ...] = ()
    """Of a run on several nodes."""
    devices_per_node: int = Field(default=TRN2.devices, ge=0)
    device_groups: tuple[DeviceGroup, ...] = ()
    counters: tuple[EngineCounters, ...] = ()
    sets: tuple[SetFacts, ...] = ()
    """The sets of prompts that were measured: name, version, licence and SHA-256 of the file."""
    prefix_caching: dict[str, bool] = Field(default_factory=dict)
    """Arm -> whether its server keeps the beginnings of prompts, where it says so."""
    versions: dict[str, str] = Field(default_factory=dict)
    """Name -> version or digest: `engine image`, `neuron runtime`, `driver`, `specdecode`, fingerprints …"""
    failures: tuple[Failure, ...] = ()
    accuracy: tuple[Accuracy, ...] = ()
    served: tuple[Served, ...] = ()
    compiled: tuple[Compiled, ...] = ()
    """Of a run with `compile.on: cpu`."""
    prompt_lengths: str = ""
    """How the prompts' lengths were counted when they were made; the server's own counts are in the metrics."""
    sweep: tuple[SweepStep, ...] = ()
    """What an adaptive sweep decided, step by step."""
    raw_prefix: str = ""
    """Where the raw files lie (`s3://bucket/runs/<run id>/` or a folder), linked from the report."""
    source: str = "specdecode.benchmark"
    """What measured the records."""
    notes: tuple[str, ...] = ()
    """Warnings that belong on the first screen of the report (an import's caveats, for example)."""
