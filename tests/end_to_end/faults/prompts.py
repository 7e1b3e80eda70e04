"""Prompts that do not fit, and sets of prompts of the Hugging Face hub."""

import json

import pytest
from specdecode import s3_keys
from specdecode.prompts import digest

from tests.end_to_end.cloud import SMALL
from tests.end_to_end.faults.cases import fails, succeeds
from tests.specdecode.pod.fake_hub import COMMIT, FakeHub

TICKETS = b"".join(json.dumps({"prompt": f"List the teams that answer ticket {n}:"}).encode() + b"\n" for n in range(3))


def hub_set(data: bytes) -> dict[str, object]:
    hub = {"repo": "acme/tickets", "revision": COMMIT, "file": "data/tickets.jsonl"}
    prompts = [{"set": f"tickets@{digest(data)}", "categories": ["prompts"], "hub": hub}]
    return SMALL | {"workload.cases": [], "workload.prompts": prompts}


@pytest.mark.one_node("no node is concerned")
def test_a_prompt_does_not_fit_into_the_models_window(cloud):
    """Its words would fit; the staged tokenizer counts what they take. No instance is bought."""
    text = {"name": "umlauts", "label": "umlauts", "kind": "text", "text": "wörd " * 300, "structured": False}
    before = cloud.bought()
    run = cloud.start("too-long", SMALL | {"workload.cases": [text]})
    end = cloud.ended(run)
    assert "umlauts has 1" in end.cause and "max_model_len is 1024" in end.cause
    fails(
        cloud,
        run,
        fault="a prompt does not fit into the model's window, though its words would",
        where="StageModels",
        error="PromptsRefused",
        row="prompts-refused",
    )
    assert cloud.bought() == before, "an instance was bought"


@pytest.mark.one_node("no node is concerned")
def test_a_set_of_the_hub_is_measured_and_kept(cloud):
    with FakeHub({}) as hub:
        hub.data = {"data/tickets.jsonl": TICKETS}
        cloud.control("faults", hub=hub.url)
        run = cloud.start("hub-set", hub_set(TICKETS))
        succeeds(cloud, run, fault="none: a set of prompts comes from the Hugging Face hub", where="-")
    assert cloud.stored(s3_keys.run_key(run.run_id, f"prompts/tickets@{digest(TICKETS)}.jsonl")) == TICKETS
    report = json.loads(cloud.stored(s3_keys.run_key(run.run_id, "report.json")))
    (work,) = report["work"]
    assert [(each["case"], each["prompts"]) for each in work["categories"]] == [("prompts", 2)]
    again = cloud.start("hub-gone", hub_set(TICKETS))
    succeeds(cloud, again, fault="the hub is gone: the set that an earlier run fetched is measured", where="-")


@pytest.mark.one_node("no node is concerned")
@pytest.mark.parametrize(("served", "fault"), [(TICKETS + b"\n", "has another hash"), (None, "is not there any more")])
def test_a_file_of_the_hub_is_not_what_was_meant(cloud, served, fault):
    before = cloud.bought()
    meant = TICKETS + fault.encode()
    with FakeHub({}) as hub:
        hub.data = {} if served is None else {"data/tickets.jsonl": served}
        cloud.control("faults", hub=hub.url)
        run = cloud.start(f"hub-{len(fault)}", hub_set(meant))
        fails(
            cloud,
            run,
            fault=f"a set of prompts on the Hugging Face hub {fault}",
            where="StageModels",
            error="StagingFailed",
            row="prompts-hub",
        )
    assert cloud.bought() == before, "an instance was bought"
