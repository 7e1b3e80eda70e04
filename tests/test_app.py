"""app.py as the CDK CLI runs it: a user's mistake is answered, not traced."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.synth
def test_bad_settings_are_one_message_and_exit_status_2(tmp_path: Path) -> None:
    context = {"regoin": "us-east-2", "vpc_cidr": "10.0.0.0/33", "neuron_ami": "v20260714"}
    result = subprocess.run(
        [sys.executable, "app.py"],
        cwd=ROOT,
        env={
            **os.environ,
            "CDK_CONTEXT_JSON": json.dumps(context),
            "CDK_OUTDIR": str(tmp_path),
            "JSII_SILENCE_WARNING_END_OF_LIFE_NODE_VERSION": "18,20,21,23",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 2
    assert "Traceback" not in result.stderr
    assert len([line for line in result.stderr.splitlines() if line.startswith("  - ")]) == 3
    assert not list(tmp_path.glob("*.template.json"))
