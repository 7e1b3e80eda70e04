"""The output of a rehearsal on a terminal."""

import io

import pytest
from rich.console import Console
from rich.spinner import Spinner
from rich.text import Text

from rehearsal.console import Progress


@pytest.mark.parametrize("width", [40, 80])
def test_a_running_step_stays_on_one_line(width: int) -> None:
    progress = Progress(console=Console(file=io.StringIO(), force_terminal=True, width=width))
    with progress.step("StageModels") as step:
        step.say("specdecode/pair-target: started " + "r1467886b-stage-specdecode-pair-target; " * 4)
        assert step._status is not None and isinstance(step._status.renderable, Spinner)
        shown = step._status.renderable.text
        assert isinstance(shown, Text) and shown.plain.startswith("StageModels  specdecode/")
        assert shown.cell_len <= width - 3 and shown.plain.endswith("…")
