"""The table of k by batch size that a report prints: an arm takes it as it is printed, and its server is told."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest
from pydantic import ValidationError
from specdecode.analysis import compare
from specdecode.analysis.advice.sweep import candidates, observations
from specdecode.analysis.report import render_html, render_markdown, render_terminal
from specdecode.analysis.results.over_load import KRange, Schedule
from specdecode.analysis.statistics.measured import terms
from specdecode.analysis.texts.setting import setting
from specdecode.experiment import Experiment, load_engine, load_preset
from specdecode.experiment.variants import Speculation
from specdecode.manifests.serve_command import serve_words
from specdecode.measures.arm import measure_arm
from specdecode.measures.arm_case import Terms
from specdecode.planning.artifacts import fingerprint
from specdecode.records import EngineCounters

from tests.specdecode.analysis.simulate import context
from tests.specdecode.analysis.simulate_load import Server, loads, run
from tests.specdecode.benchmark.making import record

FIELD = "variants.sd.speculation.num_speculative_tokens_per_batch_size"
PRINTED = Schedule(
    draft="specdecode/pair-draft-llama",
    ranges=(KRange(first=1, last=2, k=5, variant="sd"), KRange(first=3, last=4, k=0, variant="base")),
    measured_to=4,
    engine_takes_it=True,
)


def pasted(**more: Any) -> Experiment:
    """The preset of real vLLM with the two keys that the report prints."""
    keys = json.loads("{" + PRINTED.paste + "}")
    overrides = {f"variants.sd.speculation.{key}": value for key, value in keys.items()}
    return load_preset("rehearsal-vllm", overrides={**overrides, **more})


def test_what_is_printed_is_what_an_arm_takes_and_what_its_server_is_told() -> None:
    experiment = pasted()
    words = serve_words(experiment, experiment.variant("sd"), load_engine(experiment.engine), compiled=False)
    (given,) = [word for word in words if word.startswith("--speculative-config")]
    told = json.loads(shlex.split(given)[1])
    assert told["num_speculative_tokens"] == 5
    assert told["num_speculative_tokens_per_batch_size"] == [[1, 2, 5], [3, 4, 0]]
    plain = load_preset("rehearsal-vllm")
    other = serve_words(plain, plain.variant("sd"), load_engine(plain.engine), compiled=False)
    assert not any("per_batch_size" in word for word in other)


@pytest.mark.parametrize(
    ("ranges", "says"),
    [
        ([[2, 4, 5]], r"\[2, 4, 5\]: ranges begin at 1 and each after the one before: write \[1, …\]"),
        ([[1, 4, 5], [6, 8, 0]], r"write \[5, …\]"), ([[1, 4, 5], [3, 8, 0]], r"write \[5, …\]"),
        ([[1, 0, 5]], "ranges begin at 1"), ([[1, 4, 6]], "k is 0 to num_speculative_tokens, here 5"),
        ([[1, 4, -1]], "k is 0 to num_speculative_tokens"), ([[1, 4]], "Field required"),
    ],
)  # fmt: skip
def test_tables_that_vllm_refuses_or_would_change_are_refused(ranges: list[list[int]], says: str) -> None:
    spec = load_preset("rehearsal-vllm").variant("sd").speculation
    assert spec is not None
    document = {**spec.model_dump(mode="json"), "num_speculative_tokens_per_batch_size": ranges}
    with pytest.raises(ValidationError, match=says):
        Speculation.model_validate_json(json.dumps(document))


def test_two_tables_are_two_artifacts_and_no_table_is_the_one_of_before() -> None:
    engine = load_engine("rehearsal-vllm")
    made = [pasted(), pasted(**{FIELD: [[1, 4, 5]]}), load_preset("rehearsal-vllm")]
    assert len({fingerprint(each, each.variant("sd"), engine) for each in made}) == 3


def test_such_an_arm_is_called_by_its_table_and_teaches_the_advisor_nothing_of_one_k() -> None:
    tested = loads((1, 8), ks=(5,))
    (base, sd) = tested.variants
    assert sd.speculation is not None
    by_load = sd.speculation.model_copy(update={"num_speculative_tokens_per_batch_size": ((1, 4, 5), (5, 64, 0))})
    tested = tested.model_copy(update={"variants": (base, sd.model_copy(update={"speculation": by_load}))})
    servers = {"base": Server(), "sd": Server(k=5, acceptance=0.6)}
    found = compare(experiment=tested, records=run(tested, servers, seed=1), context=context())
    assert "k=5 at 1 to 4, 0 at 5 to 64 running" in setting(found)["Arms"]
    assert "k=5 at 1 to 4, 0 at 5 to 64 running" in (found.recommendation or "")
    assert found.curve and not found.schedule and not found.theory and found.advice is None
    for form in (render_html(found), render_markdown(found), render_terminal(found, width=1000)):
        assert "k=5 at 1 to 4, 0 at 5 to 64 running" in form.replace("\\", "")
    assert observations([found]) == {} and candidates(tested) == []
    known = terms(tested, tested.variant("sd"), context())
    assert known.k is None and not known.one_k and not known.every_step, "what its counters are held against"


def test_steps_that_draft_nothing_are_no_contradiction_where_k_goes_by_the_load() -> None:
    """30 tokens came, 6 of them in two counted steps: with one k the counters would be wrong."""
    records = [record([0.1, 0.2, 0.3], tokens=15, index=index) for index in range(2)]
    counters = EngineCounters(
        variant="base", case="case", round=0, trusted=True, drafts=2, draft_tokens=10, accepted_tokens=4,
        accepted_per_position=(2, 1, 1, 0, 0),
    )  # fmt: skip
    by_load = measure_arm(records, terms=Terms(one_k=False, every_step=False), counters=[counters]).arm
    assert by_load.impossible == () and by_load.acceptance_rate == 0.4 and by_load.accepted_per_position == ()
    one = measure_arm(records, terms=Terms(k=5), counters=[counters]).arm
    assert any("contradict" in why for why in one.impossible)
