"""`specdecode logs`: lines of pods from CloudWatch Logs, as Fluent Bit of the add-on writes them."""

import json
from datetime import datetime
from types import SimpleNamespace
from typing import Any, get_args

import pytest
from specdecode import names
from specdecode.cli import app, log_events, logs, runs_deployment
from specdecode.cli.runs_deployment import Execution
from specdecode.experiment import load_preset
from specdecode.manifests.naming import object_name
from typer.testing import CliRunner

from tests.plans import plan_for
from tests.specdecode.cli.runs_fake import NOW, PLAN, RUNNING, STARTED, FakeDeployment
from tests.specdecode.steps.aws_fake import FakeS3, client_error
from tests.untrusted.hostile import EVERYTHING

GROUP = "/aws/containerinsights/specdecode/application"
BEGAN = int(datetime.fromisoformat(STARTED).timestamp() * 1000)


def event(second: float, owner: str, text: str, **of: str) -> dict[str, Any]:
    about = {
        "pod_name": f"{object_name('r')}-{owner}-x7x2p",
        "namespace_name": names.NAMESPACE,
        "container_name": "main",
    }
    message = json.dumps({"log": text, "stream": "stdout", "kubernetes": {**about, **of}})
    return {"eventId": f"{owner}{second}", "timestamp": BEGAN + int(second * 1000), "message": message}


EVENTS = [
    event(1, f"compile-{PLAN.waves[0].arms[0].fingerprint}", "compiling", container_name="compile"),
    event(2, "w0-base-6d5f", "base serves with hf_" + "x" * 30),
    event(3, "w0-sd-6d5f", EVERYTHING),
    event(4, "w0-benchmark", "case 1 of 2"),
    event(5, "w0-benchmark", "of another namespace", namespace_name="default"),
    event(6, "w0-benchmark", "of another run", pod_name="r00000000-w0-benchmark-1"),
    {"eventId": "7", "timestamp": BEGAN, "message": "no JSON"},
]


class Deployment(FakeDeployment):
    """One whose pods have written `looks_at`: a list of events for each look."""

    outputs = {"DeploymentFacts": json.dumps({"cluster": "specdecode"})}  # noqa: RUF012
    looks_at: list[list[dict[str, Any]] | None] = []  # noqa: RUF012
    asked: list[dict[str, Any]] = []  # noqa: RUF012

    def execution(self, run_id: str | None) -> Execution:
        """It ends when the last look is left."""
        ended = {"status": "SUCCEEDED", "stopped": NOW.isoformat()} if len(self.looks_at) == 1 else {}
        return Execution(**{**vars(RUNNING), **ended})

    planned_at = 0

    def plan(self, run_id: str) -> Any:
        Deployment.planned_at -= 1
        return PLAN if Deployment.planned_at < 0 else None

    def client(self, service: str) -> Any:
        assert service == "logs"
        return SimpleNamespace(get_paginator=lambda name: self)

    def paginate(self, **given: Any) -> list[dict[str, Any]]:
        assert given["logGroupName"] == GROUP
        self.asked.append(given)
        found = self.looks_at.pop(0) if len(self.looks_at) > 1 else self.looks_at[0]
        if found is None:
            raise client_error("ResourceNotFoundException", "FilterLogEvents")
        return [{"events": found[:1]}, {"events": found[1:]}]


@pytest.fixture
def show(monkeypatch: pytest.MonkeyPatch) -> Any:
    facts = SimpleNamespace(model_validate_json=lambda text: SimpleNamespace(**json.loads(text)))
    monkeypatch.setattr(log_events, "DeploymentFacts", facts)
    monkeypatch.setattr(runs_deployment, "Deployment", Deployment)
    monkeypatch.setattr(log_events, "LOOK_S", 0)
    monkeypatch.setattr(log_events, "SETTLED_S", 0)
    FakeDeployment.s3 = FakeS3()
    Deployment.looks_at, Deployment.asked, Deployment.planned_at = [EVENTS], [], 0
    return lambda *arguments: CliRunner().invoke(app, ["logs", "r", *arguments])


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        ((), ["compile base compile", "serve base", "serve sd", "benchmark"]),
        (("--step", "serve"), ["serve base", "serve sd"]),
        (("--arm", "base"), ["compile base compile", "serve base"]),
        (("--step", "serve", "--arm", "sd"), ["serve sd"]),
        (("--step", "stage"), []),
    ],
)
def test_lines_of_this_run_have_their_step_and_arm_hide_credentials_and_steer_nothing(
    show: Any, arguments: tuple[str, ...], shown: list[str]
) -> None:
    result = show(*arguments)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert len(lines) == len(shown), lines
    assert all(text[9:].startswith(f"{who} ") for text, who in zip(lines, shown, strict=True)), lines
    assert "hf_x" not in result.output and "\x1b" not in result.output and GROUP in result.stderr
    if "serve base" in shown:
        assert "base serves with (hidden: a Hugging Face token)" in result.stdout
    documents = [json.loads(line) for line in show(*arguments, "--json").stdout.splitlines()]
    assert [(each["step"], each["arm"]) for each in documents] == [(*who.split(), None)[:2] for who in shown]
    assert object_name("r") in Deployment.asked[0]["filterPattern"]


def test_a_followed_run_s_lines_come_once_late_ones_too_and_it_ends_with_the_run(show: Any) -> None:
    Deployment.planned_at = 1
    late = event(3.5, "w0-sd-6d5f", "late")
    Deployment.looks_at = [None, EVENTS[:4], [*EVENTS[:3], late, EVENTS[3]], [late, event(9, "w0-benchmark", "last")]]
    result = show("--follow")
    assert result.exit_code == 0, result.output
    assert [text.rpartition(" ")[2] for text in result.stdout.splitlines()] == [
        "compiling",
        "token)",
        "#",
        "2",
        "late",
        "last",
    ]
    assert result.stdout.count(" serve ") == 3, "it was planned after it began to follow"
    assert result.stderr.count("there is no log group") == 1 and "r has ended: SUCCEEDED" in result.stderr
    assert Deployment.asked[-1]["startTime"] >= BEGAN


def test_without_the_group_the_kept_logs_are_shown_or_it_says_what_to_do(show: Any) -> None:
    Deployment.looks_at = [None]
    result = show()
    assert result.exit_code == 3 and "amazon-cloudwatch-observability" in result.stderr
    pod = f"{object_name('r')}-w0-sd-6d5f-x7x2p"
    FakeDeployment.s3.objects[f"runs/r/diagnostics/logs/{pod}.main.previous.log"] = b"broke\nfor good\n"
    result = show()
    assert result.exit_code == 0 and result.stdout.split() == ["serve", "sd", "broke", "serve", "sd", "for", "good"]
    assert "the diagnosis kept" in result.stderr


def test_an_arm_that_is_none_is_refused(show: Any) -> None:
    result = show("--arm", "sd9")
    assert result.exit_code == 2 and "it has base, sd" in " ".join(result.output.split())


def test_the_steps_are_those_whose_pods_write() -> None:
    plan = plan_for(load_preset("rehearsal", overrides={"accuracy": True, "hold": 1}))
    assert {step for step, _ in log_events.writers(plan, "r").values()} == {*get_args(logs.Writers)}
