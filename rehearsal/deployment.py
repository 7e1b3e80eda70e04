"""Synthesis and deployment with the real CDK CLI, exactly as a user's, but for where AWS is."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from specdecode.experiment.shapes import DEFAULT, SHAPES

from rehearsal import tools
from rehearsal.processes import Child, Processes
from rehearsal.services import Services

STACK = "SpecDecodeStack"
TIMEOUT_S = 600.0

_QUIET = {
    "CDK_VALIDATION": "false",
    "CDK_DISABLE_CLI_TELEMETRY": "true",
    "CDK_DISABLE_VERSION_CHECK": "true",
    "NODE_NO_WARNINGS": "1",
}
"""No validator (`make test` runs it), no calls home."""


@dataclass(frozen=True, kw_only=True)
class Deployment:
    """The app's stacks, from source to the embedded AWS."""

    processes: Processes
    services: Services
    out: str = "cdk.out"
    """Folder of the assembly, below that of the rehearsal."""

    @property
    def assembly(self) -> Path:
        """Where the synthesized app lies: templates and assets."""
        return self.processes.folder / self.out

    def synth(self, settings: Mapping[str, str]) -> Child:
        """Start `cdk synth` into the assembly folder. It needs no AWS, so other steps can run meanwhile."""
        context = [word for key, value in settings.items() for word in ("-c", f"{key}={value}")]
        app = shlex.join([sys.executable, "app.py"])
        return self._cdk("synth", "synth", "--quiet", "--app", app, "--output", str(self.assembly), *context)

    def bootstrap(self) -> Child:
        """Start `cdk bootstrap`. It does not need the app, and outside the repository it finds none to run."""
        target = f"aws://{tools.ACCOUNT}/{tools.REGION}"
        return self._cdk("bootstrap", "bootstrap", target, directory=self.processes.folder)

    def deploy(self, stack: str = STACK) -> Child:
        """Start `cdk deploy` of `stack`, which brings the stacks that it depends on."""
        return self._cdk(
            "deploy",
            "deploy",
            stack,
            "--app",
            str(self.assembly),
            "--require-approval",
            "never",
            "--progress",
            "events",
        )

    def destroy(self) -> Child:
        """Start `cdk destroy` of every stack."""
        return self._cdk("destroy", "destroy", "--all", "--force", "--app", str(self.assembly), "--progress", "events")

    def outputs(self) -> dict[str, str]:
        """Outputs of the deployed SpecDecodeStack."""
        stack = self.services.client("cloudformation").describe_stacks(StackName=STACK)["Stacks"][0]
        return {output["OutputKey"]: output["OutputValue"] for output in stack.get("Outputs", [])}

    def _cdk(self, name: str, *arguments: str, directory: Path | None = None) -> Child:
        environment = tools.environment(tools.aws_environment(self.services.endpoint) | _QUIET)
        command: list[str | Path] = [tools.CDK, *arguments, "--no-notices", "--no-color"]
        return self.processes.start(name, command, environment=environment, directory=directory)


def settings_for(node: str) -> dict[str, str]:
    """The settings of a deployment that has nodes of the shape `node`: none for those that the defaults have.

    EC2 has none of the other types in the rehearsal's region, and AWS publishes no price of them: both are said.
    """
    shape = SHAPES[node]
    if node == DEFAULT or not shape.has_devices:
        return {}
    return {
        "node_type": node,
        "trn2_zones": ",".join((SHAPES[DEFAULT].zones or {})[tools.REGION]),
        "price_per_node_hour": "1",
    }


def progress(log: Path) -> str:
    """`TrainiumClusterStack 57/140` from a running deployment's log, or nothing yet."""
    found = re.findall(r"^(\w+) \|\s+(\d+)/(\d+) \|", log.read_text(errors="replace"), re.MULTILINE)
    return "{} {}/{}".format(*found[-1]) if found else ""
