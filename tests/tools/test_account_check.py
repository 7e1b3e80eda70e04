"""What a nightly check of an account is judged by: each thing that it did not show is a line."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tools.account_check import main, problems

ROOT = Path(__file__).parents[2]
WORKFLOW = ROOT / ".github" / "workflows" / "account-check.yml"


def report(**changes: Any) -> dict[str, Any]:
    """As report.json of a run of the check, with the parts that are looked at."""
    arms = [
        {"variant": variant, "case": case, "completed": 4, "failed": 0}
        for variant in ("base", "sd")
        for case in ("repeat-line", "meaning-of-life")
    ]
    return {
        "experiment": {
            "variants": [{"name": "base", "speculation": None}, {"name": "sd", "speculation": {"k": 3}}],
            "workload": {"cases": [{"name": "repeat-line"}, {"name": "meaning-of-life"}]},
        },
        "context": {"failures": [], "counters": [{"variant": "sd", "drafts": 40}]},
        "arms": arms,
        "cost": {"node_hours": 0.3},
    } | changes


def test_a_report_with_everything_has_no_problem(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "report.json"
    file.write_text(json.dumps(report()))
    assert problems(report()) == [] and main([str(file)]) == 0
    assert "the account works" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"arms": report()["arms"][:3]}, "sd, meaning-of-life: all requests failed or were not made"),
        ({"arms": [*report()["arms"][1:], {**report()["arms"][0], "failed": 2}]}, "base, repeat-line: 2 requests"),
        ({"context": {"failures": ["Smoke"], "counters": [{"variant": "sd", "drafts": 1}]}}, "a step failed: Smoke"),
        ({"context": {"failures": [], "counters": [{"variant": "sd", "drafts": 0}]}}, "sd: its server counted no dr"),
        ({"cost": None}, "no time of a node was counted"),
    ],
)
def test_what_is_missing_is_a_line(changes: dict[str, Any], says: str, tmp_path: Path) -> None:
    (line,) = problems(report(**changes))
    assert line.startswith(says)
    (tmp_path / "report.json").write_text(json.dumps(report(**changes)))
    assert main([str(tmp_path / "report.json")]) == 1


ELSEWHERE = "trn2_zones={} price_per_node_hour=36"
"""What docs/how-to/check-your-account.md says of ACCOUNT_CHECK_SETTINGS."""


@pytest.mark.parametrize(
    ("region", "more"),
    [("us-east-2", ""), ("us-west-2", ELSEWHERE.format("usw2-az1")), ("ap-southeast-4", "price_per_node_hour=36")],
)
def test_the_workflow_is_opt_in_has_no_secret_and_destroys_whatever_happened(region: str, more: str) -> None:
    text = WORKFLOW.read_text("utf-8")
    (job,) = yaml.safe_load(text)["jobs"].values()
    assert job["if"] == "vars.ACCOUNT_CHECK_ROLE != ''" and "secrets." not in text
    assert job["permissions"] == {"contents": "read", "id-token": "write"}
    runs = [step["run"] for step in job["steps"] if "run" in step]
    order = [
        "specdecode configure $SETTINGS",
        "preflight account-check",
        "cdk deploy",
        "run account-check --yes --watch",
        "tools.account_check",
        "destroy",
    ]
    places = [next(n for n, run in enumerate(runs) if word in run) for word in order]
    assert places == sorted(places)
    destroy = next(step for step in job["steps"] if "specdecode destroy --yes" in step.get("run", ""))
    assert destroy["if"] == "always() && steps.deploy.outcome != 'skipped'"
    assert "removal_policy=destroy" in job["env"]["SETTINGS"].split(), "or the bucket and its data stay, and are billed"
    given = job["env"]["SETTINGS"].replace("${{ vars.ACCOUNT_CHECK_REGION || 'us-east-2' }}", region)
    given = given.replace("${{ vars.ACCOUNT_CHECK_SETTINGS }}", more)
    facts = subprocess.run(
        [sys.executable, "-m", "constructs_lib.settings.facts", "--alone", *given.split()],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(facts.stdout)["region"] == region
    given_back = next(n for n, run in enumerate(runs) if "specdecode capacity --json" in run)
    assert "jq --exit-status '.replicas == 0'" in runs[given_back] and places[4] < given_back < places[5]
    assert all(".ci/web-identity" in run for run in runs if "specdecode" in run or "cdk" in run)
    spent = sum(step.get("timeout-minutes", 0) for step in job["steps"])
    assert spent < job["timeout-minutes"], "the last step must have its time"


def test_every_action_of_every_workflow_is_pinned_by_its_commit() -> None:
    for file in WORKFLOW.parent.glob("*.yml"):
        for job in yaml.safe_load(file.read_text("utf-8"))["jobs"].values():
            for step in job["steps"]:
                if "uses" in step:
                    name, _, revision = step["uses"].partition("@")
                    assert name.startswith("actions/") and len(revision) == 40, f"{file.name}: {step['uses']}"
