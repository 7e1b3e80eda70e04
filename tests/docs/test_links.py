"""Every relative link of every page leads somewhere, and the index leads to every page."""

import re
from pathlib import Path
from urllib.parse import unquote

import pytest

from tests.docs.markdown import PAGES, ROOT, anchors, links, name

INDEX = ROOT / "docs" / "README.md"


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_relative_links_and_anchors_resolve(page: Path) -> None:
    dead = []
    for link in links(page):
        if re.match(r"[a-z]+:", link):
            assert link.startswith(("https://", "mailto:")), link
            continue
        path, _, anchor = unquote(link).partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.is_relative_to(ROOT) or not target.exists():
            dead.append(f"{link}: no such file")
        elif anchor and (target.suffix != ".md" or anchor not in anchors(target)):
            dead.append(f"{link}: no such heading")
    assert not dead, "\n".join([name(page), *dead])


def test_the_index_names_every_page_once() -> None:
    named = [(INDEX.parent / link).resolve() for link in links(INDEX) if not re.match(r"[a-z]+:", link)]
    pages = {page for page in ROOT.glob("docs/**/*.md") if page != INDEX}
    assert pages - set(named) == set(), "a page that nobody finds"
    assert [page for page in pages if named.count(page) > 1] == []


def test_every_page_can_be_reached_from_the_readme() -> None:
    reached, waiting = set(), [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        if page in PAGES and page not in reached:
            reached.add(page)
            waiting += [(page.parent / link.partition("#")[0]).resolve() for link in links(page) if ":" not in link]
    assert set(PAGES) - reached == set(), "a page that no other page links to"


def test_no_page_that_a_person_writes_is_long() -> None:
    """What programs write stands in docs/reference, apart. A decision is on one screen."""
    words = {page: len(page.read_text("utf-8").split()) for page in ROOT.glob("docs/**/*.md")}
    written = {page: count for page, count in words.items() if page.parent.name != "reference"}
    most = {page: 250 if page.parent.name == "adr" else 2_500 for page in written}
    assert {name(page): count for page, count in written.items() if count > most[page]} == {}
    assert sum(written.values()) <= 60_000
