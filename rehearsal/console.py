"""The output of a rehearsal: one line for each step with its time. A terminal also shows what the step does now."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from rich.console import Console
from rich.status import Status
from rich.text import Text
from specdecode.escape import line, plain


def clock(seconds: float) -> str:
    """Seconds as `1:05`."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"


_SPINNER = 3
"""Columns of the spinner before the text, and one at the end of the line."""


@dataclass(kw_only=True)
class RunningStep:
    """A step that runs now. `say` shows what it is doing."""

    name: str
    started: float
    message: str = ""
    ok: bool = True
    _status: Status | None = None

    def say(self, message: str) -> None:
        self.message = message = line(message)
        if self._status:
            text = Text.assemble(self.name, ("  " + message, "dim"))
            text.truncate(self._status.console.width - _SPINNER, overflow="ellipsis")
            self._status.update(text)


@dataclass(kw_only=True)
class Progress:
    """Prints the steps with the time since the rehearsal began. Without a terminal it prints plain lines only."""

    console: Console = field(default_factory=lambda: Console(file=sys.stderr, highlight=False))
    began: float = field(default_factory=time.monotonic)

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self.began

    @contextmanager
    def step(self, name: str) -> Iterator[RunningStep]:
        """Show a step while it runs. Its line stays. If the block ends with an exception, the line is marked as
        failed.
        """
        step = RunningStep(name=name, started=time.monotonic())
        try:
            if self.console.is_terminal:
                with self.console.status(Text(name)) as status:
                    step._status = status
                    yield step
            else:
                yield step
        except BaseException:
            self._finish(step, failed=True)
            raise
        self._finish(step, failed=not step.ok)

    def _finish(self, step: RunningStep, *, failed: bool) -> None:
        mark = ("✗", "red") if failed else ("✓", "green")
        took = time.monotonic() - step.started
        line = Text.assemble(f"{clock(self.elapsed_s):>6} ", mark, f" {step.name:<28}", f"{took:6.1f} s")
        if step.message:
            line.append(f"  {step.message}", style="dim")
        self.console.print(line, soft_wrap=True)

    def note(self, text: str, *, style: str = "") -> None:
        self.console.print(Text(plain(text), style=style), soft_wrap=True)
