"""Every fix that a check of these tests prints is taken through what reads it."""

from typing import Any

import pytest
from specdecode.cli.preflight.check import Check

from tests import printed


@pytest.fixture(autouse=True)
def fixes_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Check.__init__

    def checked(self: Check, *arguments: Any, **given: Any) -> None:
        made(self, *arguments, **given)
        for line in printed.commands(self.fix):
            found = list(printed.problems(line))
            assert not found, f"{line}: {found}"

    monkeypatch.setattr(Check, "__init__", checked)
