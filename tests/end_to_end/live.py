"""A run that is watched while it goes on, as a user with AWS credentials and no right in Kubernetes does it.

Not part of `make test` (two to four minutes):

    .venv/bin/pytest -s tests/end_to_end/live.py
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator

import pytest

from rehearsal import tools
from tests.end_to_end.cloud import SMALL, Cloud, deployed

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def cloud() -> Iterator[Cloud]:
    with deployed() as running:
        yield Cloud(running)


def begun(cloud: Cloud, *arguments: str) -> subprocess.Popen[str]:
    """`specdecode`, which goes on beside the test."""
    return subprocess.Popen(
        [tools.ROOT / ".venv" / "bin" / "specdecode", *arguments, "--region", tools.REGION],
        env=tools.environment(tools.aws_environment(cloud.running.services.endpoint)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_logs_are_followed_while_the_run_goes_on_and_are_there_after_it(cloud: Cloud) -> None:
    run = cloud.start("watched", SMALL)
    following = begun(cloud, "logs", run.run_id, "--follow", "--json")
    end = run.follow(cloud.running.progress)
    assert end.status == "SUCCEEDED", end.cause
    out, told = following.communicate(timeout=120)
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
