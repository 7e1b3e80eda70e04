"""What a plan and `validate` say of the engine's support and of arms that differ in more than speculation."""

import json

import pytest
from specdecode.cli import app
from specdecode.experiment import engine_names, load_engine, load_preset
from typer.testing import CliRunner

from tests.plans import plan_for
from tests.pricing import PRICED


def warnings(preset, **overrides):
    return plan_for(load_preset(preset, overrides=overrides), capacity=PRICED).warnings


@pytest.mark.parametrize("name", engine_names())
def test_an_end_of_support_has_a_date_and_a_successor_that_is_there(name):
    support = load_engine(name).support
    assert (support is not None) == (name in ("0.9.1-sdk2.26.1", "0.16.0-sdk2.31.1"))
    if support:
        successor = load_engine(support.successor)
        assert successor.support is None, "who moves does not move twice"
        assert support.ended is None or support.announced <= support.ended


def test_plan_validate_and_engines_say_it():
    said = [text for text in warnings("qwen3-32b") if "support ended on 2026-02-26 with Neuron SDK 2.28" in text]
    assert said and "move to 0.29.0-sdk2.33.0" in said[0] and "draft models have no successor" in said[0]
    assert not [text for text in warnings("rehearsal") if "support" in text]
    run = CliRunner().invoke
    assert "warning: 0.9.1-sdk2.26.1: support ended" in run(app, ["validate", "qwen3-32b"]).output
    assert json.loads(run(app, ["validate", "qwen3-32b", "--json"]).output)["warnings"] == said
    coming = run(app, ["engines", "0.16.0-sdk2.31.1"]).output
    assert "ends with the coming Neuron SDK 2.34 (announced on 2026-10-16)" in " ".join(coming.split())


def test_what_an_arm_says_for_itself_is_named_and_speculation_is_not():
    assert not [text for text in warnings("qwen3-32b") if "not in speculation alone" in text]
    assert not [text for text in warnings("llama-3.1-405b") if "not in speculation alone" in text]
    own = {"variants.sd.neuron_config": {"fused_qkv": True}, "variants.sd.env": {"NEURON_RT_EXEC_TIMEOUT": "9"}}
    (said,) = [text for text in warnings("qwen3-32b", **own) if "not in speculation alone" in text]
    assert said.endswith("alone: $NEURON_RT_EXEC_TIMEOUT: 9 against unset; fused_qkv: on against unset")
    (said,) = [
        text for text in warnings("qwen3-32b", **{"variants.sd.quantization": "bf16", **weights()}) if "alone" in text
    ]
    assert "weights: acme/other@main against Qwen/Qwen3-32B@" in said


def test_what_speculation_switches_off_is_off_whatever_the_arm_says():
    said = {"variants.sd.extra_args": ["--async-scheduling"]}
    assert not [text for text in warnings("llama-3.1-8b-eagle3", **said) if "not in speculation alone" in text]
    against = said | {"variants.sd.compare_to": "base-async"}
    (found,) = [text for text in warnings("llama-3.1-8b-eagle3", **against) if "not in speculation alone" in text]
    sampling = "on_device_sampling_config: {all_greedy: on} against {all_greedy: off}"
    assert found.endswith(f"alone: --async-scheduling: off against on; {sampling}")


def test_what_both_arms_are_told_and_speculation_switches_off_is_said():
    """Both say it, so that they look alike; the engine takes it from one of them."""
    both = {f"variants.{name}.extra_args": ["--async-scheduling"] for name in ("sd", "base")}
    (found,) = [text for text in warnings("llama-3.1-8b-eagle3", **both) if "whatever is said" in text]
    assert found.startswith("sd is told --async-scheduling, and 0.24.0-sdk2.32.0 switches it off under speculation")
    assert not [text for text in warnings("llama-3.1-8b-eagle3") if "whatever is said" in text]
    orders = [word for name, each in both.items() for word in ("--set", f"{name}={json.dumps(each)}")]
    assert found in CliRunner().invoke(app, ["validate", "llama-3.1-8b-eagle3", *orders]).output.replace("\n", "")


def weights():
    return {"variants.sd.target": {"id": "acme/other", "family": "qwen3", "size_gib": 60}}
