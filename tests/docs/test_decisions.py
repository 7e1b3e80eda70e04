"""Every decision is cited by what it explains, every citation leads to a decision, and all have one form."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.docs.markdown import ROOT, name

ADR = ROOT / "docs" / "adr"
DECISIONS = {int(path.name[:4]): path for path in sorted(ADR.glob("*.md"))}
CITED = re.compile(r"\b(?:ADR|[Dd]ecision) \[?(\d{1,3})\b|\badr/(\d{4})-")
HEADINGS = ["Context", "Decision", "Consequences"]


def citations(path: Path) -> set[int]:
    """The decisions that a file cites, by number."""
    return {int(found[1] or found[2]) for found in CITED.finditer(path.read_text(encoding="utf-8"))}


def texts() -> list[Path]:
    """Code, data and pages of the repository, but for the decisions, their table and the changelog."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    found = [ROOT / line for line in listed.splitlines() if line.endswith((".py", ".md", ".yaml"))]
    left_out = {ROOT / "docs" / "README.md", ROOT / "CHANGELOG.md", Path(__file__)}
    return [path for path in found if path.is_file() and path not in left_out and path.parent != ADR]


def test_every_citation_leads_to_a_decision() -> None:
    wrong = {name(path): missing for path in texts() if (missing := citations(path) - DECISIONS.keys())}
    assert wrong == {}, "no file of docs/adr has that number"


def test_every_decision_is_cited_by_what_it_explains() -> None:
    cited = {number for path in texts() for number in citations(path)}
    assert DECISIONS.keys() - cited == set(), "cite it in the docstring of the code that it explains: `ADR 41`"


@pytest.mark.parametrize("path", DECISIONS.values(), ids=name)
def test_decisions_have_one_form(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert re.findall(r"(?m)^## (.+)$", text) == HEADINGS
    for number in re.findall(r"\]\((\d{4})-[a-z0-9-]+\.md", text):
        assert int(number) in DECISIONS
