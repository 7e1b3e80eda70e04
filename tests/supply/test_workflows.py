"""What runs elsewhere: pinned, with few rights, and the same commands as here."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tools.suites import SUITES
from tools.supply.locks import ROOT

GITHUB = ROOT / ".github"
WORKFLOWS = {path.stem: path for path in (GITHUB / "workflows").iterdir()}


def jobs(path: Path) -> list[dict[str, Any]]:
    return list(yaml.safe_load(path.read_text())["jobs"].values())


@pytest.mark.parametrize("path", WORKFLOWS.values(), ids=WORKFLOWS.keys())
def test_a_workflow_may_only_read_and_ends_by_itself(path: Path) -> None:
    workflow = yaml.safe_load(path.read_text())
    deploys = path.name == "account-check.yml"
    assert workflow["permissions"] == {"contents": "read"}
    assert workflow["concurrency"]["cancel-in-progress"] is not deploys, "who deploys must come to destroying"
    for job in jobs(path):
        assert job.get("permissions") == ({"contents": "read", "id-token": "write"} if deploys else None)
        longest = {"account-check.yml": 200, "nightly.yml": 180, "test.yml": 75}.get(path.name, 30)
        assert job["timeout-minutes"] <= longest
        if deploys:
            assert all(step["timeout-minutes"] <= 60 for step in job["steps"] if "cdk " in step.get("run", ""))
        (checkout,) = (step for step in job["steps"] if step.get("uses", "").startswith("actions/checkout@"))
        assert checkout["with"]["persist-credentials"] is False


@pytest.mark.parametrize("path", WORKFLOWS.values(), ids=WORKFLOWS.keys())
def test_actions_are_pinned_by_commit_with_the_version_beside(path: Path) -> None:
    used = [line for line in path.read_text().splitlines() if "uses:" in line]
    assert used
    pinned = re.compile(r"\s*- uses: [\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")
    assert [line for line in used if not pinned.fullmatch(line)] == []


@pytest.mark.parametrize(
    ("name", "targets"),
    [
        ("test", ["test", "test-all MINUTES=60"]),
        ("nightly", ["suite NAME=${{ matrix.suite }}"]),
        ("audit", ["audit"]),
        ("upstream", ["upstream"]),
    ],
)
def test_a_workflow_runs_make_targets_and_nothing_else(name: str, targets: list[str]) -> None:
    ran = [step["run"] for job in jobs(WORKFLOWS[name]) for step in job["steps"] if "run" in step]
    assert ran == [f"make {target}" for target in targets]


def test_every_suite_runs_at_night_with_time_to_install_it_and_to_stop_it() -> None:
    (job,) = jobs(WORKFLOWS["nightly"])
    assert job["strategy"] == {"fail-fast": False, "matrix": {"suite": list(SUITES)}}
    assert job["timeout-minutes"] >= 30 + max(suite.minutes for suite in SUITES.values())
    vllm = {name for name, suite in SUITES.items() if suite.needs}
    (needing,) = re.findall(r"\nsuite:.*filter (.+?),\$\(NAME\)\),install-vllm", (ROOT / "Makefile").read_text())
    assert set(needing.split()) == vllm


def test_updates_come_for_everything_that_is_pinned() -> None:
    updates = yaml.safe_load((GITHUB / "dependabot.yml").read_text())["updates"]
    assert {entry["package-ecosystem"] for entry in updates} == {"uv", "npm", "github-actions"}
    assert all(entry["directory"] == "/" and entry["cooldown"]["default-days"] >= 7 for entry in updates)
    folders = {path.parent.relative_to(ROOT).parts for path in ROOT.glob("**/requirements/*.in")}
    assert all(len(parts) == 1 for parts in folders), "Dependabot looks one folder deep"


def test_hooks_before_a_commit_use_the_locked_tools() -> None:
    config = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())
    (repo,) = config["repos"]
    assert repo["repo"] == "local"
    for hook in repo["hooks"]:
        assert hook["language"] == "system"
        assert hook["entry"].startswith(".venv/bin/")
    lint = {hook["id"]: hook["entry"] for hook in repo["hooks"]}
    tested = (ROOT / "Makefile").read_text().split("\ntest:", 1)[1].split("\n\n")[0]
    assert all(command.split()[0] in tested for command in (lint["ruff"], lint["mypy"]))
