"""docs/experiments.md says what is so: its example loads, and it names what there is."""

import re
import textwrap
from pathlib import Path

import yaml
from specdecode.experiment import engine_names, from_document, preset_names
from specdecode.experiment.rules import RULES

TEXT = (Path(__file__).parents[3] / "docs" / "experiments.md").read_text()


def test_the_example_is_a_valid_experiment():
    (block,) = re.findall(r"(?m)^    # yaml-language-server.*?(?=^- )", TEXT, re.S)
    experiment = from_document(yaml.safe_load(textwrap.dedent(block)))
    assert [v.name for v in experiment.variants] == ["base", *(f"sd-qwen3-0.6b-k{k}" for k in (3, 5, 7))]
    assert [case.name for case in experiment.workload.cases] == ["meaning-of-life", "ticket"]


def test_presets_engines_and_rules_that_it_names_exist():
    assert sorted(re.findall(r"(?m)^\| `([^`]+)` \|", TEXT)) == sorted(preset_names())
    assert set(re.findall(r"specdecode engines ([\w.-]+\d)", TEXT)) <= set(engine_names())
    assert {"method-supported", "tensor-parallel", "fits-node", "ami-driver"} <= set(RULES)
