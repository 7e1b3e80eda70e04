"""Every command line that the code prints and the pages show is one that its program reads; every snippet loads."""

import json
import shlex
from typing import Any

import pytest
import yaml
from specdecode.cli import app
from specdecode.experiment import from_document, load_preset, parse_overrides, preset_names
from specdecode.experiment.engine import Engine
from specdecode.planning import make_bill
from typer.testing import CliRunner

from tests import printed
from tests.docs.markdown import PAGES, ROOT, Block, blocks
from tests.plans import PRICED, plan_for

FOUND = printed.found()


def test_every_line_is_read_by_its_program() -> None:
    wrong = {f"{where}: {line}": found for where, line in FOUND if (found := list(printed.problems(line)))}
    assert not wrong, "\n".join(f"{line}\n    {found}" for line, found in wrong.items())


def test_there_are_as_many_as_there_are() -> None:
    """Guards the test above against finding nothing."""
    of_code = [where for where, _ in FOUND if where.startswith(("lambda", "constructs_lib", "assets", "stacks"))]
    assert len(of_code) > 25 and len(FOUND) - len(of_code) > 150


@pytest.mark.parametrize(
    "line",
    [
        "aws eks update-nodegroup-config --taints addOrUpdateTaints=[{key=a,value=b}]",
        "aws eks update-nodegroup-config --taints 'addOrUpdateTaints=[{name=a,value=b}]'",
        "aws eks no-such-thing --name a",
        "aws s3 ls 'unclosed",
        ".venv/bin/specdecode run qwen3-32b --wacht",
        ".venv/bin/specdecode configure nods=2",
        ".venv/bin/specdecode configure nodes=99",
        "npx cdk deploy SpecDecodeStack -c alert_mail=a@example.com",
        "npx cdk deploy AnotherStack",
        "kubectl gett pods",
        "make deplyo",
        "kubectl get pods --al",
        "kubectl create secret generic a --from-fil=b",
        "helm upgrade karpenter oci://public.ecr.aws/karpenter/karpenter --reuse-values",
        "helm upgrade karpenter oci://public.ecr.aws/karpenter/karpenter --version 1.14.1 --reuse-value",
        ".venv/bin/python -m constructs_lib.no_such | kubectl apply -f -",
        "make install && kubectl gett pods",
        "make rehearse EXPERIMENT=rehearsal-no-such",
        "npx cdk deploy SpecDecodeStack -c nodes=99",
        "specdecode plan no-such-preset",
        "aws sso login --profil a",
    ],
)
def test_a_line_that_does_not_work_is_found(line: str) -> None:
    assert list(printed.problems(line))


def test_a_run_whose_cost_must_be_accepted_is_written_with_enough() -> None:
    """Each `specdecode run PRESET` of the pages starts as it stands there."""
    lines = {tuple(shlex.split(line, comments=True)) for where, line in FOUND if where.split(":")[0].endswith(".md")}
    runs = [words for words in lines if words[0].endswith("specdecode") and words[1] == "run" and len(words) > 2]
    assert len(runs) > 5
    for words in runs:
        given = printed.COMMANDS["run"].make_context("run", list(words[2:])).params
        if given["resume"] or given["experiment"] not in preset_names():
            continue
        experiment = load_preset(given["experiment"], overrides=parse_overrides(given["overrides"] or []))
        bill = make_bill(plan_for(experiment, capacity=PRICED), PRICED)
        assert bill.added <= bill.limit(given["accept_cost"]), words


def documents() -> list[Any]:
    """Every block of YAML, JSON, JSON Lines and Python."""
    found = [block for page in PAGES for block in blocks(page)]
    yaml_like = [b for b in found if b.language == "yaml" or b.text.startswith("# yaml-language-server")]
    others = [b for b in found if b.language in ("json", "jsonl", "python")]
    return [pytest.param(block, id=block.id) for block in (*yaml_like, *others)]


@pytest.mark.parametrize("block", documents())
def test_snippets_load(block: Block) -> None:
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
