"""The facts of a deployment: of the stack that exists, or of the checkout that would be deployed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence

from pydantic import ValidationError

from specdecode.cli.output import EXIT_ENVIRONMENT, EXIT_USAGE, stop_with
from specdecode.experiment import assets_dir
from specdecode.experiment.deployment_facts import DeploymentFacts

OUTPUT = "DeploymentFacts"
PRINTS_FACTS = "constructs_lib.settings.facts"
"""The program of the checkout that prints the facts. It is started, not imported, because this package does without the
CDK.
"""


def of_outputs(outputs: Mapping[str, str], *, stack: str) -> DeploymentFacts:
    """The facts of a deployed stack. Ends the command with 3 if its version has none."""
    try:
        return DeploymentFacts.model_validate_json(outputs[OUTPUT])
    except (KeyError, ValidationError):
        hint = "it is of another version: deploy again with npx cdk deploy SpecDecodeStack"
        raise stop_with(f"{stack} has no output {OUTPUT} that can be read; {hint}", EXIT_ENVIRONMENT) from None


def of_checkout(settings: Sequence[str]) -> DeploymentFacts:
    """The facts of `cdk deploy -c KEY=VALUE…` in this command's checkout. Ends the command with 2 if it would be
    refused.
    """
    root = assets_dir().parent
    if not (root / "constructs_lib").is_dir():
        raise stop_with("nothing is deployed here, and this is no checkout that could be", EXIT_ENVIRONMENT)
    program = [sys.executable, "-m", PRINTS_FACTS, *settings]
    ended = subprocess.run(program, cwd=root, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise stop_with(ended.stderr.strip() or f"{PRINTS_FACTS} ended with {ended.returncode}", EXIT_USAGE)
    return DeploymentFacts.model_validate_json(ended.stdout)
