"""Pages that say where things are name files and folders that exist."""

import re

import pytest

from tests.docs.markdown import ROOT
from tests.test_architecture import LAYER

PATH = re.compile(r"`([\w.-]+(?:/[\w.-]+)+/?|[\w-]+\.py)`")
FROM = ("", "lambda", "lambda/specdecode")
"""A path is from one of these folders."""


@pytest.mark.parametrize("page", ["docs/architecture.md", "docs/glossary.md", "CONTRIBUTING.md"])
def test_paths_of_the_code_exist(page: str) -> None:
    named = PATH.findall((ROOT / page).read_text("utf-8"))
    assert len(named) > 5
    assert [path for path in named if not any((ROOT / folder / path).exists() for folder in FROM)] == []


def test_the_table_of_layers_is_that_of_the_imports() -> None:
    rows = re.findall(r"(?m)^\| (\d) \| (.*) \|$", (ROOT / "docs" / "architecture.md").read_text("utf-8"))
    for package, layer in LAYER.items():
        assert [int(number) for number, text in rows if f"`{package}`" in text] == [layer], package
