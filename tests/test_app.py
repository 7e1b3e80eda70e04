"""app.py, as the CDK CLI runs it and alone: a mistake is answered, not traced, and stderr is otherwise empty."""

import json
import os
import re
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path

import pytest

from tests.conftest import STACKS
from tools.supply.locks import locked

ROOT = Path(__file__).resolve().parents[1]
OF_CLI = ("CDK_", "JSII_", "PYTHON", "VIRTUAL_ENV")


def outside_the_cli(**variables: str) -> dict[str, str]:
    """The environment without what the CDK CLI, make or a virtual environment would set; no validator (7 s)."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(OF_CLI)}
    return {**kept, "CDK_VALIDATION": "false", **variables}


@pytest.mark.synth
def test_bad_settings_are_one_message_and_exit_status_2(tmp_path: Path) -> None:
    context = {"regoin": "us-east-2", "vpc_cidr": "10.0.0.0/33", "nodes": "0"}
    result = subprocess.run(
        [sys.executable, "app.py"],
        cwd=ROOT,
        env=outside_the_cli(CDK_CONTEXT_JSON=json.dumps(context), CDK_OUTDIR=str(tmp_path)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 2
    assert "Traceback" not in result.stderr
    assert len([line for line in result.stderr.splitlines() if line.startswith("  - ")]) == 3
    assert not list(tmp_path.glob("*.template.json"))


def environment_of(lock: str, folder: Path) -> Path:
    """The Python of a virtual environment that holds what `lock` names and nothing else, as links to what is here."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (site,) = folder.glob("lib/python*/site-packages")
    for name in locked(lock):
        found = distribution(name)
        for part in {file.parts[0] for file in found.files or () if file.parts[0] not in ("..", "__pycache__")}:
            link = site / part
            if not link.exists():
                link.symlink_to(Path(str(found.locate_file(part))))
        for file in found.files or ():
            if file.parts[-2:-1] == ("bin",) and file.parts[0] == "..":
                (folder / "bin" / file.name).symlink_to(Path(str(found.locate_file(file))).resolve())
    return folder / "bin" / "python"


@pytest.mark.slow
@pytest.mark.synth
def test_requirements_txt_is_enough_and_the_cli_is_not_needed(tmp_path: Path) -> None:
    """Nothing on stderr: no page about Node's version, no deprecated construct, no warning of ours. And an empty output
    folder in the environment is none.
    """
    python = environment_of("requirements", tmp_path / "environment")
    result = subprocess.run(
        [str(python), str(ROOT / "app.py")],
        cwd=tmp_path,
        env=outside_the_cli(CDK_CONTEXT_JSON='{"accept_no_alerts": true}', CDK_OUTDIR=""),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == "The templates are in cdk.out; `npx cdk deploy SpecDecodeStack` deploys them.\n"
    for stack in STACKS:
        assert (tmp_path / "cdk.out" / f"{stack}.template.json").stat().st_size > 10_000
    # The first build of the bundle on a machine installs its dependencies with this.
    built = subprocess.run([str(python), "-m", "uv", "--version"], capture_output=True, text=True, check=False)
    assert (built.returncode, built.stderr) == (0, "")


def test_one_uv_installs_everything_and_builds_the_bundle() -> None:
    assert locked("requirements")["uv"] == locked("requirements/build")["uv"]


def test_the_cli_runs_the_same_app() -> None:
    command = json.loads((ROOT / "cdk.json").read_text())["app"]
    assert re.fullmatch(r"\.venv/bin/python app\.py", command), "a variable here is one that `python app.py` lacks"
