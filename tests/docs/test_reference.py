"""docs/reference and the table of decisions are what the code says now."""

import re

import pytest
from specdecode.cli import GROUPS, output
from specdecode.experiment.schema import descriptions, experiment_schema
from specdecode.experiment.variants import Serving
from specdecode.experiment.workload import Workload

from tests.docs.markdown import ROOT
from tests.templates import Templates
from tools.reference import alarms, bounds, cli, costs, printed_lines, s3_layout, settings, states
from tools.reference.__main__ import FOLDER, PARTS_OF_PAGES

STALE = "run `.venv/bin/python -m tools.reference`, and look at the difference"


@pytest.mark.parametrize(
    ("name", "render"),
    [
        ("bounds.md", bounds.render),
        ("cli.md", cli.render),
        ("costs.md", costs.render),
        ("s3-layout.md", s3_layout.render),
        ("states.md", states.render),
        ("../settings.md", settings.render),
    ],
)
def test_pages_are_current(name, render):
    assert (FOLDER / name).read_text() == render(), STALE


def test_every_exit_code_of_the_command_has_a_meaning():
    known = {value for name, value in vars(output).items() if name.startswith("EXIT_")}
    assert {int(code) for code, _ in cli.EXIT_CODES} == {0, *known}


def test_the_page_of_printed_lines_has_their_count():
    """Within a tenth: every message that somebody adds changes it."""
    number = re.compile(r"\| (\d+) ")
    page, now = (FOLDER / "printed-lines.md").read_text(), printed_lines.render()
    assert number.sub("| n ", page) == number.sub("| n ", now), STALE
    said, counted = (list(map(int, number.findall(text))) for text in (page, now))
    assert len(said) == 16
    assert all(abs(one - other) <= max(1, other // 10) for one, other in zip(said, counted, strict=True)), STALE


@pytest.mark.synth
def test_the_page_of_alarms_is_current(templates: Templates):
    text = (FOLDER / "alarms.md").read_text()
    assert text == alarms.render(templates.stacks), STALE
    assert "NoHeartbeat" in text


@pytest.mark.parametrize(("name", "replaced"), PARTS_OF_PAGES.items())
def test_the_written_part_of_a_page_is_current(name, replaced):
    text = (FOLDER.parent / name).read_text()
    assert text == replaced(text), STALE


def test_the_table_of_decisions_is_complete():
    text = (FOLDER.parent / "README.md").read_text()
    assert all(path.name in text for path in (FOLDER.parent / "adr").glob("*.md"))


def test_the_page_of_the_bucket_names_what_the_code_writes():
    source = "\n".join(path.read_text() for path in (ROOT / "lambda" / "specdecode").rglob("*.py"))
    listed = {part for parts, _, _ in s3_layout.FILES for part in parts}
    for name in (part for part in listed if part == part.lower() and "*" not in part):
        assert f'"{name}"' in source or f"/{name}" in source, f"nothing writes {name}"
    for call in re.findall(r"run_key\(([^()]*)\)", source):
        named = re.findall(r'"([\w.-]+)"', call)
        assert set(named) <= listed | {"a.jsonl", "base"}, f"{call}: not on the page"


def test_every_command_of_the_app_and_every_state_is_on_its_page():
    assert re.search(r"\| `run [^`]*` \|[^|]*\|[^|]*`--watch`", cli.render())
    assert all(f"## {group}" in cli.render() for group in GROUPS) and len(GROUPS) == 5
    assert "| `AcquireCapacity` |" in states.render()
    assert "`CapacityUnavailable`" in states.render()


def test_the_schema_describes_its_fields():
    described = experiment_schema()["$defs"]["Workload"]["properties"]["rounds"]["description"]
    assert described == descriptions(Workload)["rounds"]
    assert "swap device groups" in described
    assert set(descriptions(Serving)) == set(Serving.model_fields)
