"""The commands about runs, without AWS."""

import pytest
from specdecode.cli import app, output, runs_deployment, runs_release
from specdecode.cli.preflight import checks
from specdecode.experiment import Capacity, kept, load_preset, to_yaml
from typer.testing import CliRunner

from tests.specdecode.benchmark.virtual import world
from tests.specdecode.cli.runs_fake import POD, FakeDeployment
from tests.specdecode.steps.aws_fake import FakeS3

__all__ = ["world"]


@pytest.fixture
def checkout(monkeypatch, tmp_path):
    """The folder where deployment.json would be."""
    monkeypatch.setattr(kept, "checkout", lambda: tmp_path)
    return tmp_path


@pytest.fixture
def no_region(monkeypatch, tmp_path):
    """Neither the environment nor a profile says where AWS is to be asked. It is another folder, without results."""
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def command(monkeypatch):
    """Run a command line; returns typer's result."""
    FakeDeployment.looks, FakeDeployment.held, FakeDeployment.ends_as = 0, True, "SUCCEEDED"
    FakeDeployment.started, FakeDeployment.stopped = [], []
    FakeDeployment.asked_for_pods, FakeDeployment.seen_pods = 0, (POD,)
    FakeDeployment.reconciled, FakeDeployment.remembered = 0, True
    FakeDeployment.capacity, FakeDeployment.s3 = Capacity(), FakeS3()
    FakeDeployment.s3.objects["runs/r/experiment.yaml"] = to_yaml(load_preset("rehearsal")).encode()
    FakeDeployment.broken, FakeDeployment.found = False, {"replicas": 0}
    monkeypatch.setattr(runs_deployment, "Deployment", FakeDeployment)
    monkeypatch.setattr(checks, "refuse_a_run_that_would_fail", lambda deployment, experiment: None)
    monkeypatch.setattr(runs_release.time, "sleep", lambda seconds: None)
    return lambda *arguments: CliRunner().invoke(app, arguments)


@pytest.fixture
def answering(monkeypatch, command):
    """Run a command line at a terminal, where a person answers with these lines."""
    monkeypatch.setattr(output, "is_interactive", lambda: True)
    return lambda *arguments, says: CliRunner().invoke(app, arguments, input=says)
