"""The parts of an engine's file: its runtime, its artifact, its probes, its counters, and how long things take."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, StringConstraints

from specdecode.experiment.base import EnvName, Frozen
from specdecode.experiment.compiling import CpuCompile

AmiVersion = Annotated[str, StringConstraints(pattern=r"^v20\d{6}$")]
"""Release of the EKS AMI, as in the alias `al2023@v20260625`; sorts as text."""


class NeuronRuntime(Frozen):
    """The Neuron runtime in the image, and the node images with a driver that it accepts."""

    version: str
    newest_driver: str
    """For people: the driver versions it works with."""
    driver_minors: tuple[int, int | None] | None = None
    """Minor versions of driver 2.x: the oldest that it takes, and the first that it does not (None: all that follow).
    None as a whole: pods do not compare."""
    oldest_ami: AmiVersion
    newest_ami: AmiVersion | None = None
    refused_amis: tuple[AmiVersion, ...] = ()
    source: str


class Artifact(Frozen):
    """The compiled artifact of an arm, and how its server finds it."""

    variable: EnvName = "NEURON_COMPILED_ARTIFACTS"
    copied: bool = False
    """Whether the artifact must be writable. It is then copied to local disk before serving, even if that is slower."""
    serve_env: dict[EnvName, str] = Field(default_factory=dict)
    """Variables of servers that serve the artifact, and not of the one that makes it. They forbid to compile."""
    on_cpu: CpuCompile | None = None
    """How it is compiled on a node without devices. None if no source says that the engine can."""


class Probe(Frozen):
    """HTTP probe of /health."""

    initial_delay_s: int = Field(default=0, ge=0)
    period_s: int = Field(ge=1)
    timeout_s: int = Field(ge=1)
    failures: int = Field(default=3, ge=1)


class Probes(Frozen):
    """Startup has no number of failures: the experiment's deadline of serving limits it."""

    startup: Probe
    readiness: Probe
    liveness: Probe


class Metrics(Frozen):
    """Names of the counters in /metrics, and whether they can be trusted."""

    trusted: bool
    drafts: str | None = None
    draft_tokens: str | None = None
    accepted_tokens: str | None = None
    accepted_per_position: str | None = None
    per_request: str | None = None
    """Arguments that make answers say how many drafts were accepted; each speculating arm has them. None: there are
    none."""
    note: str = ""


class Estimates(Frozen):
    """Ranges (low, high) from which the plan's node-hours come."""

    compile_minutes: tuple[float, float] = (0, 0)
    """For one artifact of any size."""
    compile_minutes_per_gib: tuple[float, float] = (0, 0)
    """More for each GiB of weights."""
    load_minutes: tuple[float, float]
    load_minutes_per_gib: tuple[float, float]
    seconds_per_output_token: tuple[float, float]
    seconds_per_1000_input_tokens: tuple[float, float]
    source: str
