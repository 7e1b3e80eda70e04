"""Synthesis and deployment with the real CDK CLI, as a user does it. Only the address of AWS differs."""

import re
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from specdecode.experiment.shapes import DEFAULT, SHAPES

from rehearsal import tools
from rehearsal.processes import Child, Processes
from rehearsal.servers import Services

STACK = "SpecDecodeStack"
OUT = "cdk.out"
"""Folder of the assembly, below that of the rehearsal."""
TIMEOUT_S = 1800.0

_QUIET = {
    "CDK_VALIDATION": "false",
    "CDK_DISABLE_CLI_TELEMETRY": "true",
    "CDK_DISABLE_VERSION_CHECK": "true",
    "NODE_NO_WARNINGS": "1",
}
"""Without CDK's validator (`make test` runs it) and without calls to the internet."""


def synth(processes: Processes, settings: Mapping[str, str], *, out: str = OUT) -> Child:
    """Start `cdk synth` into the folder `out` of the rehearsal. It needs no AWS, so other steps can run meanwhile.
    What the checkout keeps of a deployment of its own has no part in it.
    """
    context = [word for key, value in settings.items() for word in ("-c", f"{key}={value}")]
    app = shlex.join([sys.executable, "app.py", "--alone"])
    arguments = ["synth", "--quiet", "--app", app, "--output", str(processes.folder / out), *context]
    return _cdk(processes, *arguments, variables=tools.NO_AWS)


@dataclass(frozen=True, kw_only=True)
class Deployment:
    """The app's stacks, from the assembly to the embedded AWS."""

    processes: Processes
    services: Services
    out: str = OUT

    @property
    def assembly(self) -> Path:
        """The folder of the synthesized app: templates and assets."""
        return self.processes.folder / self.out

    def bootstrap(self) -> Child:
        """Start `cdk bootstrap` outside the repository, so that it does not run the app, which it does not need."""
        target = f"aws://{tools.ACCOUNT}/{tools.REGION}"
        return self._call("bootstrap", target, directory=self.processes.folder)

    def deploy(self, stack: str = STACK) -> Child:
        """Start `cdk deploy` of `stack` and of the stacks that it depends on."""
        how = ["--app", str(self.assembly), "--require-approval", "never", "--progress", "events"]
        return self._call("deploy", stack, *how)

    def destroy(self) -> Child:
        """Start `cdk destroy` of every stack."""
        return self._call("destroy", "--all", "--force", "--app", str(self.assembly), "--progress", "events")

    def outputs(self) -> dict[str, str]:
        """Outputs of the deployed SpecDecodeStack."""
        stack = self.services.client("cloudformation").describe_stacks(StackName=STACK)["Stacks"][0]
        return {output["OutputKey"]: output["OutputValue"] for output in stack.get("Outputs", [])}

    def _call(self, *arguments: str, directory: Path | None = None) -> Child:
        """Start a command of the CDK CLI that calls the embedded AWS."""
        variables = tools.aws_environment(self.services.endpoint)
        return _cdk(self.processes, *arguments, variables=variables, directory=directory)


def _cdk(processes: Processes, *arguments: str, variables: Mapping[str, str], directory: Path | None = None) -> Child:
    environment = tools.environment({**variables, **_QUIET})
    command: list[str | Path] = [tools.CDK, *arguments, "--no-notices", "--no-color"]
    return processes.start(arguments[0], command, environment=environment, directory=directory)


def settings_for(node: str) -> dict[str, str]:
    """The settings of a deployment with nodes of the shape `node`; none for the default shape. Other shapes also need a
    zone and a price: EC2 has none of them in the rehearsal's region, and AWS publishes no price for them.
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
    """`TrainiumClusterStack 57/140` from the log of a running deployment; "" if the log has no such line yet."""
    found = re.findall(r"^(\w+) \|\s+(\d+)/(\d+) \|", log.read_text(errors="replace"), re.MULTILINE)
    return "{} {}/{}".format(*found[-1]) if found else ""
