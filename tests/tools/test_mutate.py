"""The score of the broken copies."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_a_run_that_tried_nothing_has_not_passed() -> None:
    command = [sys.executable, "-m", "tools.mutate", "--minutes", "0", "--only", "lambda/specdecode/names.py"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert "0 of 0 caught" in done.stdout
