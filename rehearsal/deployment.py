"""Synthesis and deployment with the real CDK CLI, exactly as a user's, but for where AWS is."""

from __future__ import annotations

import re
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

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

    @property
    def assembly(self) -> Path:
        """Where the synthesized app lies: templates and assets."""
        return self.processes.folder / "cdk.out"

    def synth(self) -> Child:
        """Start `cdk synth` into the assembly folder. It needs no AWS, so other steps can run meanwhile."""
        return self._cdk(
            "synth", "synth", "--quiet", "--app", shlex.join([sys.executable, "app.py"]), "--output", str(self.assembly)
        )

    def bootstrap(self) -> Child:
        """Start `cdk bootstrap`. It does not need the app, and outside the repository it finds none to run."""
        target = f"aws://{tools.ACCOUNT}/{tools.REGION}"
        return self._cdk("bootstrap", "bootstrap", target, directory=self.processes.folder)

    def deploy(self) -> Child:
        """Start `cdk deploy`, which brings the stacks that SpecDecodeStack depends on."""
        return self._cdk(
            "deploy",
            "deploy",
            STACK,
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


def progress(log: Path) -> str:
    """`TrainiumClusterStack 57/140` from a running deployment's log, or nothing yet."""
    found = re.findall(r"^(\w+) \|\s+(\d+)/(\d+) \|", log.read_text(errors="replace"), re.MULTILINE)
    return "{} {}/{}".format(*found[-1]) if found else ""
