"""`plan` offers only what `validate` takes, for every preset with every option that decides who can compile."""

import itertools
import re

import pytest
from specdecode.cli.experiments_view import cost_lines
from specdecode.experiment import ExperimentError, load_preset, parse_overrides, preset_names
from specdecode.planning import make_bill

from tests.plans import PRICED, plan_for

OPTIONS = {
    "compile.on": ("accelerator", "cpu"), "sweep": (None, "grid"), "workload.rounds": (None, 1),
    "serving.max_num_seqs": (None, 1), "serving.neuron_config.save_sharded_checkpoint": (None, True, False),
}  # fmt: skip
OFFER = re.compile(r"--set ([\w.]+)=([^\s;,)]+)")


def chosen(preset: str) -> list[dict[str, object]]:
    """Every fifth choice of the options, for each preset others, without those that are left as they are."""
    found = [*itertools.product(*([(key, value) for value in values] for key, values in OPTIONS.items()))]
    taken = [found[0], *found[1 + preset_names().index(preset) % 5 :: 5]]
    return [{key: value for key, value in each if value is not None} for each in taken]


@pytest.mark.parametrize("preset", preset_names())
def test_what_is_offered_is_taken(preset: str):
    """A price of compiling on CPU nodes is shown if and only if asking for it is valid."""
    valid = 0
    for options in chosen(preset):
        try:
            experiment = load_preset(preset, overrides=options, capacity=PRICED)
        except ExperimentError:
            continue
        valid += 1
        plan = plan_for(experiment, capacity=PRICED)
        bill = make_bill(plan, PRICED)
        lines = "\n".join(cost_lines(bill))
        for key, value in OFFER.findall("\n".join([lines, *plan.warnings, *bill.assumptions])):
            load_preset(preset, overrides={**options, **parse_overrides([f"{key}={value}"])}, capacity=PRICED)
        try:
            load_preset(preset, overrides={**options, "compile.on": "cpu"}, capacity=PRICED)
        except ExperimentError:
            assert bill.compiling is None
        else:
            assert bill.compiling is not None or not plan.artifacts
    assert valid, "no choice is valid, so nothing was tried"
