"""Plan looks at the sets that the bucket holds before anything is created, and keeps them with the run."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from specdecode import manifests, names
from specdecode.exit_codes import Exit
from specdecode.experiment import from_document
from specdecode.experiment.prompt_lengths import CountSpec, PromptLength, PromptLengths, longest_prompt
from specdecode.experiment.prompt_sets import hub_sets
from specdecode.prompts import PromptSet, digest, read_set
from specdecode.steps.errors import DamagedFolder, InvalidExperiment, PromptsRefused, StagingFailed
from specdecode.steps.run import load_run, render_context

from tests.finished_folders import stored
from tests.specdecode.steps.world import World

ROWS = (
    {"id": "short", "category": "triage", "turns": ["Which team?"]},
    {"id": "novel", "category": "novels", "turns": ["word " * 2000]},
)
DATA = "".join(json.dumps(row) + "\n" for row in ROWS).encode()
KEY = f"prompts/tickets@{digest(DATA)}.jsonl"


def request(*categories: str, sha: str = digest(DATA)) -> dict[str, Any]:
    prompts = [{"set": f"tickets@{sha}", "categories": list(categories)}]
    return {"experiment": {"extends": "rehearsal", "name": "own", "workload": {"prompts": prompts}}}


def refused(world: World, asked: dict[str, Any]) -> str:
    with pytest.raises(InvalidExperiment) as error:
        world.plan(request=asked)
    assert not [key for key in world.s3.objects if key.startswith("runs/run-1/prompts/")]
    return str(error.value)


def test_a_set_of_the_bucket_is_copied_into_the_runs_folder(world: World) -> None:
    world.s3.objects[KEY] = DATA
    world.plan(request=request("triage"))
    assert world.s3.objects[f"runs/run-1/{KEY}"] == DATA


def test_what_is_wrong_with_a_set_is_said_before_anything_is_created(world: World) -> None:
    assert "is not there: `specdecode prompts add FILE`" in refused(world, request("triage"))
    world.s3.objects[KEY] = DATA
    assert "its categories: triage, novels" in refused(world, request("cooking"))
    said = refused(world, request("triage", "novels"))
    assert "workload.cases.novels: novel has at least 2000 tokens, with 64 for the answer 2064: max_model_len" in said
    assert "workload.cases.triage" not in said
    world.s3.objects[KEY] = DATA + b"\n"
    assert "has the SHA-256" in refused(world, request("triage"))
    world.s3.objects[KEY] = b"{"
    assert "line 1" in refused(world, request("triage"))


# --- sets of the hub, and the count with the staged tokenizer

HUB = {"repo": "acme/tickets", "revision": "c0ffee" * 6 + "abcd", "file": "data/tickets.jsonl"}


def from_hub(*categories: str, **hub: Any) -> dict[str, Any]:
    prompts = [{"set": f"tickets@{digest(DATA)}", "categories": list(categories), "hub": HUB | hub}]
    return {"experiment": {"extends": "rehearsal", "name": "own", "workload": {"cases": [], "prompts": prompts}}}


def staging(
    world: World, *, fetched: bytes = DATA, lengths: Callable[[CountSpec], PromptLengths] | None = None
) -> None:
    """The Jobs put there what the real ones would."""
    seen = world.cluster.react

    def react() -> None:
        seen()
        for job in world.cluster.all("Job"):
            name = job["metadata"]["name"]
            if "-prompts-" in name:
                world.s3.objects.setdefault(KEY, fetched)
            if name.endswith("-count") and lengths:
                (config,) = (each for each in world.cluster.all("ConfigMap") if each["metadata"]["name"] == name)
                spec = CountSpec.model_validate_json(config["data"]["spec.json"])
                world.s3.objects[spec.key] = lengths(spec).model_dump_json().encode()

    world.cluster.react = react


def of(tokens: int) -> Callable[[CountSpec], PromptLengths]:
    row = PromptLength(id="short", tokens=tokens, answer=64)
    return lambda spec: PromptLengths(exact=True, how="counted", cases={spec.cases[0].name: (row,)})


def jobs(world: World) -> list[str]:
    return [job["metadata"]["name"].partition("-")[2] for job in world.cluster.all("Job")]


def test_a_set_of_the_hub_is_fetched_before_a_node_is_asked_for_and_once(world: World) -> None:
    staging(world)
    world.plan(request=from_hub("triage"))
    assert f"runs/run-1/{KEY}" not in world.s3.objects
    seen = world.finish("StageModels")
    assert any("acme/tickets@c0ffee" in progress.message for progress in seen)
    assert world.s3.objects[f"runs/run-1/{KEY}"] == DATA
    assert world.replicas == 0
    assert [name for name in jobs(world) if "prompts" in name]
    again = World()
    again.s3.objects |= {KEY: DATA}
    again.plan(request=from_hub("triage"))
    again.finish("StageModels")
    assert not [name for name in jobs(again) if "prompts" in name], "it is in the bucket already"


def test_what_the_hub_gave_is_judged_like_any_other_set() -> None:
    for fetched, words in ((b"{", "line 1"), (DATA + b"\n", "has the SHA-256")):
        world = World()
        staging(world, fetched=fetched)
        world.plan(request=from_hub("triage"))
        with pytest.raises(PromptsRefused, match=words):
            world.finish("StageModels")
    world = World()
    staging(world)
    world.plan(request=from_hub("triage", "cooking", "novels"))
    with pytest.raises(PromptsRefused, match=r"(?s)its categories: triage, novels.*novel has at least 2000 tokens"):
        world.finish("StageModels")
    assert world.replicas == 0


def test_a_gated_set_gets_the_token_and_no_other(world: World) -> None:
    world.plan(request=from_hub("triage", gated=True))
    run = load_run(world.rt.store, "run-1")
    ctx = render_context(load_run(world.rt.store, "run-1"), world.rt)
    ((given, hub),) = hub_sets(run.plan.experiment)
    work = manifests.fetch_prompts_job(run.plan, given, hub, ctx)
    assert names.HF_TOKEN_SECRET in json.dumps(work.job) and work.rights.token
    other = manifests.fetch_prompts_job(run.plan, given, hub.model_copy(update={"gated": False}), ctx)
    assert names.HF_TOKEN_SECRET not in json.dumps(other.job) and not other.rights.token


LONG = {"name": "long", "label": "long", "kind": "text", "text": "wörd " * 300, "structured": False}
OWN_TEXT = {"experiment": {"extends": "rehearsal", "name": "own", "workload": {"cases": [LONG]}}}


def test_a_prompt_that_does_not_fit_ends_the_run_before_a_node_is_asked_for(world: World) -> None:
    staging(world, lengths=of(961))
    world.plan(request=OWN_TEXT)
    with pytest.raises(PromptsRefused) as refused:
        world.finish("StageModels")
    assert "long: short has 961 tokens, with 64 for the answer 1025: max_model_len is 1024" in str(refused.value)
    assert world.replicas == 0
    assert all(
        world.s3.objects[f"{model.prefix}COMPLETE.json"]
        for model in load_run(world.rt.store, "run-1").plan.models_to_stage
    )
    found = world.clean_up(refused.value)
    assert "before a node was taken" in found.Cause


def test_prompts_that_fit_are_counted_once_for_all_runs(world: World) -> None:
    staging(world, lengths=of(960))
    world.plan(request=OWN_TEXT)
    assert "counted" in world.finish("StageModels")[-1].message
    world.plan("run-2", OWN_TEXT)
    assert len(world.finish("StageModels", "run-2")) == 1


def test_counts_of_a_tokenizer_that_is_no_longer_there_are_not_taken(world: World) -> None:
    staging(world, lengths=of(960))
    world.plan(request=OWN_TEXT)
    world.finish("StageModels")
    target = load_run(world.rt.store, "run-1").plan.experiment.target.prefix
    world.s3.objects |= stored(target, {"tokenizer.json": b"{}"})
    del world.s3.objects[f"{target}part-0.bin"]
    world.plan("run-2", OWN_TEXT)
    assert len(world.finish("StageModels", "run-2")) > 1
    assert len([key for key in world.s3.objects if key.startswith("prompts/counted/")]) == 2


def test_a_tokenizer_that_a_count_finds_damaged_is_set_aside(world: World) -> None:
    world.plan(request=OWN_TEXT)
    world.job_fails["staging"] = Exit.DAMAGED_MODEL
    world.s3.objects |= {
        path: body
        for item in load_run(world.rt.store, "run-1").plan.models
        for path, body in stored(item.model.prefix).items()
    }
    target = load_run(world.rt.store, "run-1").plan.experiment.target.prefix
    with pytest.raises(DamagedFolder, match=f"set aside, and made anew by the next run: {target}"):
        world.finish("StageModels")
    assert f"{target}COMPLETE.json" not in world.s3.objects and f"{target}part-0.bin" in world.s3.objects


def test_a_tokenizer_that_counts_nothing_is_said_and_asked_again_by_the_next_run(world: World) -> None:
    staging(world, lengths=lambda spec: PromptLengths(exact=False, how="cannot read tokenizer.json", cases={}))
    world.plan(request=OWN_TEXT)
    assert "not counted (cannot read tokenizer.json)" in world.finish("StageModels")[-1].message
    world.plan("run-2", OWN_TEXT)
    assert len(world.finish("StageModels", "run-2")) > 1


@pytest.mark.parametrize(
    "document", [b"", b"{}", b'{"exact": true, "how": "", "cases": {"a": [{"tokens": -1}]}}', b"\xff"]
)
def test_lengths_that_cannot_be_read_are_counted_again_and_never_believed(world: World, document: bytes) -> None:
    world.plan(request=OWN_TEXT)
    staging(world, lengths=of(960))
    world.finish("StageModels")
    (key,) = [key for key in world.s3.objects if key.startswith("prompts/counted/")]
    world.s3.objects[key] = document
    world.plan("run-2", OWN_TEXT)
    assert len(world.finish("StageModels", "run-2")) > 1
    assert PromptLengths.model_validate_json(world.s3.objects[key]).exact
    again = World()
    again.plan(request=OWN_TEXT)
    again.s3.objects[key] = document
    with pytest.raises(StagingFailed, match="cannot be read"):
        again.finish("StageModels")


def test_the_smoke_step_gets_the_longest_of_all_prompts(world: World) -> None:
    rows = [{"id": f"r{n}", "category": "triage", "turns": ["wörd " * n]} for n in (3, 99, 50)]
    data = "".join(json.dumps(row) + "\n" for row in rows).encode()
    key = f"prompts/tickets@{digest(data)}.jsonl"
    world.s3.objects[key] = data
    asked = request("triage", sha=digest(data))
    asked["experiment"]["workload"]["cases"] = ["count"]
    world.run_through(until="Smoke", request=asked)
    (config,) = (each for each in world.cluster.all("ConfigMap") if each["metadata"]["name"].endswith("smoke"))
    sent = json.loads(config["data"]["prompt.json"])
    assert (sent["name"], sent["room"], sent["answer"]) == ("triage/r99", 1024, 64)
    assert (sent["text"], sent["messages"]) == ("wörd " * 99, []), "the rehearsal asks for completions"


def own(workload: dict[str, Any], *rows: dict[str, Any]) -> tuple[Any, dict[str, PromptSet]]:
    data = "".join(json.dumps({"category": "a", **row}) + "\n" for row in rows).encode()
    given = {"set": f"own@{digest(data)}", "categories": ["a"], "per_category": 100}
    asked = from_document({"extends": "rehearsal", "workload": {"cases": [], "prompts": [given], **workload}})
    return asked, {asked.workload.cases[0].prompts.key: read_set(data, name="own")}


def test_the_smoke_step_sends_a_whole_conversation_as_long_as_it_may_become() -> None:
    """Three answers of 64 tokens make it longer than a text of 125 tokens."""
    talk = {"id": "talk", "turns": ["one", "two", "three"]}
    longest = longest_prompt(*own({"endpoint": "chat"}, {"id": "text", "turns": ["word " * 100]}, talk))
    assert longest is not None
    assert longest.name == "a/talk (turn 3, the answers before it of 64 tokens each)"
    said = " and" * 64
    assert [message["content"] for message in longest.messages] == ["one", said, "two", said, "three"]
    assert longest.text == "", "nothing is sent twice"
    completions = longest_prompt(*own({"endpoint": "completions"}, talk))
    assert completions is not None
    assert (completions.messages, completions.text) == ((), "\n".join(["one", said, "two", said, "three"]))


@pytest.mark.parametrize("letter", ["a", '"', "é"])
def test_what_the_smoke_step_is_given_fits_into_a_configmap(letter: str) -> None:
    rows = [{"id": f"r{size}", "turns": [letter * size]} for size in (200, 420_000, 890_000, 950_000)]
    longest = longest_prompt(*own({}, *rows))
    assert longest is not None
    assert longest.name == ("a/r890000" if letter == "a" else "a/r420000")
    assert 400_000 < len(longest.model_dump_json().encode()) < 900_001
