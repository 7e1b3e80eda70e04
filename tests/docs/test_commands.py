"""Every command in a code block is one that the tools themselves accept. Nothing is run."""

from __future__ import annotations

import itertools
import re
import shlex
from typing import Any

import pytest
import typer
from specdecode.cli import app
from specdecode.experiment import from_document, load_engine, load_preset, parse_overrides, preset_names
from specdecode.planning import make_bill
from typer.testing import CliRunner

from constructs_lib.settings.reading import read_settings
from tests.docs import test_operations as operations
from tests.docs.markdown import PAGES, ROOT, Block, blocks, name
from tests.plans import plan_for
from tests.pricing import PRICED

GENERATED = ROOT / "docs" / "reference" / "cli.md"
"""Its usage lines are the app's own."""
SHELL = {"|", ">", ">>", "&&", ";", "2>&1"}
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
COMMANDS: dict[str, Any] = typer.main.get_command(app).commands
CDK_VERBS = {"bootstrap", "deploy", "destroy", "diff", "synth"}


def lines(*programs: str) -> list[Any]:
    """Each command line of one of `programs` in any code block: its words, without what the shell does with them."""
    found = []
    for block in (block for page in PAGES if page != GENERATED for block in blocks(page)):
        for line in block.text.replace("\\\n", " ").splitlines():
            given = line.strip().removeprefix("$ ").removeprefix("- run: ")
            if not given.startswith(tuple(f"{program} " for program in programs)):
                continue
            words = shlex.split(given, comments=True)
            end = next((n for n, word in enumerate(words) if word in SHELL), len(words))
            found.append(pytest.param(words[:end], id=f"{block.id} {given[:60]}"))
    return found


@pytest.mark.parametrize("words", lines("specdecode", ".venv/bin/specdecode"))
def test_specdecode_commands_parse(words: list[str]) -> None:
    _, command, *rest = words
    assert command in COMMANDS, f"no command {command}: {', '.join(COMMANDS)}"
    context = COMMANDS[command].make_context(command, list(rest))
    given = context.params
    reference = given.get("reference") or given.get("experiment")
    if reference and re.fullmatch(r"[a-z0-9.-]+", reference) and not reference.endswith((".yaml", ".json")):
        assert reference in preset_names() or command in ("advise", "runs"), f"no preset {reference}"
        load_preset(reference, overrides=parse_overrides(given.get("overrides") or []))
    if command == "engines" and not (given["name"] or "my-").startswith("my-"):
        load_engine(given["name"])


RUNS = [param for param in lines("specdecode", ".venv/bin/specdecode") if param.values[0][1] == "run"]


@pytest.mark.parametrize("words", RUNS)
def test_a_run_whose_cost_must_be_accepted_is_written_with_enough(words: list[str]) -> None:
    """Each `specdecode run PRESET` of the pages starts as it stands there."""
    given = COMMANDS["run"].make_context("run", list(words[2:])).params
    if given["resume"] or given["experiment"] not in preset_names():
        return
    experiment = load_preset(given["experiment"], overrides=parse_overrides(given["overrides"] or []))
    needed = make_bill(plan_for(experiment, capacity=PRICED), PRICED).to_accept
    assert needed is None or (given["accept_cost"] or 0) >= needed


@pytest.mark.parametrize("words", lines("make"))
def test_make_targets_exist(words: list[str]) -> None:
    for word in words[1:]:
        variable, equals, value = word.partition("=")
        if not equals:
            assert word in TARGETS, word
        elif variable == "EXPERIMENT" and re.fullmatch(r"[a-z0-9.-]+", value):
            assert value in preset_names(), value


@pytest.mark.parametrize("words", lines("npx cdk", "cdk"))
def test_cdk_commands_name_settings_that_exist(words: list[str]) -> None:
    verb, *rest = words[words.index("cdk") + 1 :]
    assert verb in CDK_VERBS, verb
    context = dict(value.split("=", 1) for flag, value in itertools.pairwise(rest) if flag == "-c")
    read_settings(context)


@pytest.mark.parametrize("words", lines("aws"))
def test_aws_commands_exist(words: list[str]) -> None:
    operations.test_aws_commands_exist(shlex.join(words))


def test_the_parser_finds_what_there_is() -> None:
    """Guards the tests above against finding nothing."""
    assert len(RUNS) > 5
    assert len(lines("specdecode", ".venv/bin/specdecode")) > 40
    assert len(lines("make")) > 8
    assert {name(block.page) for page in PAGES for block in blocks(page)} >= {"README.md", "docs/experiments.md"}


def test_an_unknown_option_is_refused() -> None:
    with pytest.raises(Exception, match="No such option"):
        test_specdecode_commands_parse(["specdecode", "run", "qwen3-32b", "--wacht"])


def documents() -> list[Any]:
    """Every block of YAML, JSON, JSON Lines and Python."""
    found = [block for page in PAGES for block in blocks(page)]
    yaml_like = [b for b in found if b.language == "yaml" or b.text.startswith("# yaml-language-server")]
    others = [b for b in found if b.language in ("json", "jsonl", "python")]
    return [pytest.param(block, id=block.id) for block in (*yaml_like, *others)]


@pytest.mark.parametrize("block", documents())
def test_snippets_load(block: Block) -> None:
    import json

    import yaml
    from specdecode.experiment.engine import Engine

    match block.language:
        case "python":
            compile(block.text, block.id, "exec")
        case "json":
            json.loads(block.text)
        case "jsonl":
            assert all(isinstance(json.loads(line), dict) for line in block.text.splitlines())
        case _:
            document = yaml.safe_load(block.text)
            if "jobs" in document:
                assert document["permissions"] == {"contents": "read"}
                (job,) = document["jobs"].values()
                assert all(isinstance(step["run"], str) for step in job["steps"])
            elif "extends" in document or "variants" in document:
                from_document(document)
            else:
                assert set(document) <= set(Engine.model_fields), "neither an experiment nor a part of an engine"


def test_advise_plan_and_the_page_about_sweeps_name_the_same_first_arm() -> None:
    advice = CliRunner().invoke(app, ["advise", "qwen3-32b-tuning"]).stdout.splitlines()
    plan = CliRunner().invoke(app, ["plan", "qwen3-32b-tuning"]).stdout
    assert advice[0] in plan
    page = [line.strip() for line in (ROOT / "docs" / "how-to" / "sweep.md").read_text().splitlines()]
    assert advice[0].startswith("Compile ") and set(advice[:3]) <= set(page)
