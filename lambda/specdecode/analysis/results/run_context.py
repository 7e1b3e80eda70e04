"""What a comparison needs to know of a run besides the experiment and the raw records.

The pipeline's Report state fills it from state.json, the engines' counters and the price setting. The command line
rebuilds it from a run's folder. Every field but `run_id` and the two times has a default that claims nothing, so that
records of any two servers can be compared.
"""

from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, Field, StringConstraints

from specdecode import __version__
from specdecode.experiment.base import Frozen, Many
from specdecode.experiment.effective import WORKERS, pinned
from specdecode.experiment.model import CompileOn
from specdecode.experiment.shapes import TRN2
from specdecode.names import RUN_ID
from specdecode.planning import Plan, SweepStep
from specdecode.records import EngineCounters, Servers, SetFacts

RunId = Annotated[str, StringConstraints(pattern=f"^{RUN_ID}$")]
"""Usable as the name of a folder."""


class DeviceGroup(Frozen):
    """The Neuron devices that one arm held in one round (as its ResourceClaim was allocated)."""

    variant: str
    round: int = 0
    devices: Many[str]
    """Names of the allocated devices, as the ResourceSlice has them."""
    group: str = ""
    """Device-group id that the DRA driver gave the arm (`devicegroup8_id` …). Empty if the driver gave none."""


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
    higher_is_better: bool = True


class Served(Frozen):
    """How to serve an arm again."""

    variant: str
    recipe: str
    """Shell source to paste: fetches weights and artifact, then the `vllm serve` line of its pod."""
    artifact: str = ""
    """URL of the compiled artifact. Empty if the engine compiles nothing."""
    artifact_sha256: str = ""
    """The hash of its files' names, sizes and hashes, which its last servers compared. Empty if it is not recorded. A
    note of the context tells if earlier ones compared another.
    """
    models: dict[str, str] = Field(default_factory=dict)
    """URL of each model that it loads -> such a hash."""

    @property
    def contents(self) -> dict[str, str]:
        """URL of each folder that it loads -> its hash, or "". The artifact is the first."""
        return ({self.artifact: self.artifact_sha256} if self.artifact else {}) | self.models

    @property
    def where(self) -> str:
        """The artifact in words, and the models with which it is served. Empty if there is none."""
        told = [
            each + (f", SHA-256 of its files {content}" if content else "") for each, content in self.contents.items()
        ]
        return "; with ".join(told) if self.artifact else ""


class Compiled(Frozen):
    """Where the artifact of an arm was compiled. Kept for runs with `compile.on: cpu`."""

    variant: str
    on: CompileOn
    refused: bool = False
    """The artifact of the CPU node did not load, so the accelerator node compiled it again."""


class RunContext(Frozen):
    """What is known of a run besides its records: times, node, price, failures."""

    run_id: RunId
    started_at: AwareDatetime
    finished_at: AwareDatetime
    price_per_node_hour: float | None = Field(default=None, ge=0)
    """Dollars per hour of the node. None: the report has no cost."""
    node_seconds: float | None = Field(default=None, ge=0)
    """Seconds for which the run held a node (acquired to released). None if unknown."""
    load_seconds: float | None = Field(default=None, gt=0)
    """Seconds of load for each case and arm, in place of a number of requests (`bench --duration`)."""
    capacity_type: Literal["on-demand", "capacity-block", "odcr", "none"] = "none"
    node: str = ""
    """Instance type that the arms ran on. Empty for servers that already ran."""
    devices_per_node: int = Field(default=TRN2.devices, ge=0)
    device_groups: Many[DeviceGroup] = ()
    counters: Many[EngineCounters] = ()
    sets: Many[SetFacts] = ()
    """The sets of prompts that were measured: name, version, licence and SHA-256 of the file."""
    prefix_caching: dict[str, bool] = Field(default_factory=dict)
    """Arm -> whether its server caches prompt prefixes. An arm whose server does not say so has no entry."""
    versions: dict[str, str] = Field(default_factory=dict)
    """Name -> version or digest: `engine image`, `neuron runtime`, `driver`, `specdecode`, fingerprints …"""
    failures: Many[Failure] = ()
    accuracy: Many[Accuracy] = ()
    served: Many[Served] = ()
    artifacts: dict[str, str] = Field(default_factory=dict)
    """Arm -> its compiled artifact on the machine that served it, and the hashes that its measured servers compared."""
    compiled: Many[Compiled] = ()
    """Where each artifact was compiled. Empty without `compile.on: cpu`."""
    start_check: str = ""
    """What the start check cost. Empty if there was none."""
    prompt_lengths: str = ""
    """How the benchmark counted the lengths of the prompts. The metrics have the server's own counts."""
    sweep: Many[SweepStep] = ()
    """Decisions of an adaptive sweep, step by step."""
    raw_prefix: str = ""
    """Where the raw files lie (`s3://bucket/runs/<run id>/` or a folder), linked from the report."""
    source: str = "specdecode.benchmark"
    """Tool that measured the records."""
    notes: Many[str] = ()
    """Warnings that belong on the first screen of the report (an import's caveats, for example)."""


def of_servers(servers: Servers) -> dict[str, Any]:
    """Fields of a RunContext that follow from servers.json."""
    told = {name: getattr(servers, name) for name in ("counters", "sets", "prefix_caching", "notes")}
    return told | {"prompt_lengths": servers.prompt_tokens}


def known_of(plan: Plan, servers: Servers) -> dict[str, Any]:
    """Fields of a RunContext that follow from the plan and from servers.json."""
    experiment, engine = plan.experiment, plan.engine
    versions, notes = {"specdecode": __version__}, [*servers.notes]
    if experiment.holds_node:
        versions |= {"engine": engine.title, "engine image": engine.reference}
        if how := pinned(plan.served, engine):
            versions[WORKERS] = how
        told = "; ".join(engine.inferred)
        inferred = f"Inferred of {engine.name}, not read in its source: {told} (`specdecode engines {engine.name}`)."
        notes = [*([engine.caveat] if engine.caveat else []), *([inferred] if told else []), *notes]
    # An engine for CPUs may claim devices only to be placed: its arms did not run on the node's accelerator.
    real = experiment.holds_node and engine.on_neuron == experiment.shape.has_devices
    return of_servers(servers) | {
        "node": experiment.node if real else "",
        "devices_per_node": experiment.shape.devices,
        "versions": versions,
        "notes": tuple(notes),
    }
