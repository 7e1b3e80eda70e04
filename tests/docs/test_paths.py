"""Pages that say where things are name files and folders that exist."""

from __future__ import annotations

import re

import pytest

from tests.docs.markdown import ROOT

PATH = re.compile(r"`([\w.-]+(?:/[\w.-]+)+/?|[\w-]+\.py)`")
FROM = ("", "lambda", "lambda/specdecode")
"""A path is from one of these folders."""


@pytest.mark.parametrize("page", ["docs/architecture.md", "docs/glossary.md", "CONTRIBUTING.md"])
def test_paths_of_the_code_exist(page: str) -> None:
    named = PATH.findall((ROOT / page).read_text("utf-8"))
    assert len(named) > 5
    assert [path for path in named if not any((ROOT / folder / path).exists() for folder in FROM)] == []
