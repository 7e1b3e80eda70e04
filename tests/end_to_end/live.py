"""A run that is watched while it goes on, as a user with AWS credentials and no right in Kubernetes does it.

Not part of `make test` (two to four minutes):

    .venv/bin/pytest -s tests/end_to_end/live.py
"""

import json
import subprocess
from collections.abc import Iterator
from datetime import datetime, timedelta
from types import SimpleNamespace

import pytest

from rehearsal import execution, tools
from tests.end_to_end.cloud import SMALL, Cloud, deployed
from tests.patience import LONG_S

WHERE = ("--region", tools.REGION)
STATE = SimpleNamespace(answering=())


@pytest.fixture(scope="module")
def cloud() -> Iterator[Cloud]:
    with deployed() as running:
        yield Cloud(running)


def begun(cloud: Cloud, *arguments: str) -> subprocess.Popen[str]:
    """`specdecode`, which goes on beside the test."""
    return subprocess.Popen(
        [tools.ROOT / ".venv" / "bin" / "specdecode", *arguments, *WHERE],
        env=tools.environment(tools.aws_environment(cloud.running.services.endpoint)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


HOT = ("--temperature", "0.7")
QUESTION = "What is machine learning, in the words of a cat?"


def test_a_run_holds_its_arms_answers_and_lets_go_by_itself(cloud: Cloud) -> None:
    """Nothing but the state machine ends the hold: no command runs at its end but `logs --follow`."""
    words = [f"--set={key}={json.dumps(value)}" for key, value in SMALL.items()]
    started = json.loads(cloud.command("run", "rehearsal", "--hold", "2m", *words, "--yes", "--json", *WHERE))
    run_id = started["run_id"]
    assert started["bill"]["hold_minutes"] == 2
    run = execution.of(cloud.running.services, started)
    following = begun(cloud, "logs", run_id, "--follow", "--json")
    cloud.until(lambda: (run.deployment.state(run_id) or STATE).answering, what="the hold")
    state = run.deployment.state(run_id)
    assert state is not None and state.answers_until is not None and state.answering == ("base", "sd")
    asked = [begun(cloud, "ask", run_id, *words) for words in (("base", QUESTION), ("sd", QUESTION, *HOT))]
    answers = {arm: each.communicate(timeout=LONG_S) for arm, each in zip(("base", "sd"), asked, strict=True)}
    assert [each.returncode for each in asked] == [0, 0], answers
    assert "sd ignores the temperature" in answers["sd"][1] and "ignores" not in answers["base"][1]
    assert all("100 tokens, ended by length" in told and len(text) > 50 for text, told in answers.values()), answers
    print(answers)
    s3 = cloud.running.services.client("s3")
    assert "Contents" not in s3.list_objects_v2(Bucket=cloud.running.bucket, Prefix="asks/")
    assert json.loads(cloud.command("status", run_id, "--json", *WHERE))["step"] == "Accuracy"
    end = cloud.ended(run)
    late = datetime.fromisoformat(end.stopped or "") - state.answers_until
    print(f"the run ended {late.total_seconds():.0f} s after its hold")
    assert end.status == "SUCCEEDED" and late > timedelta(0)
    cloud.at_rest()
    out, told = following.communicate(timeout=LONG_S)
    assert following.returncode == 0, told
    assert {"hold", "serve"} <= {json.loads(line)["step"] for line in out.splitlines()}
    assert QUESTION[:20] not in out and answers["base"][0][:40] not in out
    assert QUESTION.encode() not in b"".join(cloud.kept(run).values())


def test_logs_are_followed_while_the_run_goes_on_and_are_there_after_it(cloud: Cloud) -> None:
    run = cloud.start("watched", SMALL)
    following = begun(cloud, "logs", run.run_id, "--follow", "--json")
    end = run.follow(cloud.running.progress)
    assert end.status == "SUCCEEDED", end.cause
    out, told = following.communicate(timeout=LONG_S)
    assert following.returncode == 0 and f"{run.run_id} has ended: SUCCEEDED" in told, told
    followed = [json.loads(line) for line in out.splitlines()]
    after = [json.loads(line) for line in cloud.command("logs", run.run_id, "--json").splitlines()]
    written = sorted((entry["pod"], entry["container"], entry["text"]) for entry in after)
    assert sorted((entry["pod"], entry["container"], entry["text"]) for entry in followed) == written
    steps = {(entry["step"], entry["arm"]) for entry in after}
    assert {("serve", "base"), ("serve", "sd"), ("smoke", None), ("benchmark", None)} <= steps, steps
    print(len(after), sorted(steps, key=str), told)
    shown = cloud.command("logs", run.run_id, "--step", "serve", "--arm", "sd").splitlines()
    assert shown and all(line.split()[1:3] == ["serve", "sd"] for line in shown)
