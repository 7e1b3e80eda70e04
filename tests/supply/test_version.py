"""One version: of the package, of what is installed, of the change log, of the stacks and of the bill of materials."""

import json
import re
from importlib.metadata import version

import pytest
from specdecode import __version__

from tests.conftest import STACKS
from tests.templates import Templates
from tools.supply.inventory import BILL
from tools.supply.locks import ROOT


def test_it_is_semantic_and_what_is_installed() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+(-[0-9a-z.]+)?", __version__)
    assert version("specdecode") == __version__, "make install"


def test_the_change_log_begins_with_it() -> None:
    first = re.search(r"^## (\S+) \((unreleased|\d{4}-\d\d-\d\d)\)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert first is not None
    assert first[1] == __version__


def test_the_bill_of_materials_is_of_it() -> None:
    assert json.loads(BILL.read_text())["metadata"]["component"]["version"] == __version__, "make lock"


@pytest.mark.synth
@pytest.mark.parametrize("stack", STACKS)
def test_the_stacks_say_it(templates: Templates, stack: str) -> None:
    assert templates.stacks[stack]["Description"].endswith(f"(specdecode {__version__})")
