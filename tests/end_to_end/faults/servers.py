"""Servers that already run, and an experiment that does not exist."""

import json

import pytest
from specdecode import s3_keys

from constructs_lib.pipeline.states import STEPS
from tests.end_to_end.faults.cases import fails, succeeds
from tests.rehearsal import elsewhere


@pytest.mark.one_node("no node is concerned")
def test_servers_that_already_run(cloud, tmp_path):
    """Two engines of nobody's run, one behind a key: no node, the same report; the key stays where it is."""
    with elsewhere.servers(cloud.running) as document:
        run = cloud.running.start("elsewhere", {"experiment": document})
        succeeds(cloud, run, fault="none: servers that already run", where="-")
    assert elsewhere.states(run) == [
        *STEPS, "ReleaseCapacity", "Report",
    ]  # fmt: skip
    state = json.loads(cloud.stored(s3_keys.run_key(run.run_id, "state.json")))
    assert (state["held_since"], state["node"], state["measured"]) == (None, None, [0])
    report = json.loads(cloud.stored(s3_keys.run_key(run.run_id, "report.json")))
    arms = {arm["variant"]: arm for arm in report["arms"]}
    assert all(arm["completed"] == 4 for arm in arms.values())
    assert arms["sd"]["acceptance_source"] == "engine counters"
    assert arms["sd"]["cost_per_million"] > 0 and arms["base"]["cost_per_million"] is None
    assert any("servers that already ran" in note for note in report["notes"])
    kept = [path for path in cloud.running.download(run.run_id, to=tmp_path).rglob("*") if path.is_file()]
    assert len(kept) > 8 and not [path for path in kept if elsewhere.KEY.encode() in path.read_bytes()]


@pytest.mark.one_node("no node is concerned")
def test_the_key_of_a_server_that_already_runs_is_missing(cloud):
    document = elsewhere.experiment("http://127.0.0.1:9", "http://127.0.0.1:9/other")
    document["variants"][0]["api_key_secret"] = "endpoint-nobody"
    run = cloud.running.start("no-key", {"experiment": document})
    fails(
        cloud,
        run,
        fault="the Secret with a server's key is missing",
        where="Smoke",
        error="SmokeFailed",
        row="api-key-missing",
    )


@pytest.mark.one_node("no node is concerned")
def test_an_invalid_experiment(cloud):
    run = cloud.running.start("invalid", {"experiment": "nonsense"})
    fails(
        cloud,
        run,
        fault="an experiment that does not exist",
        where="Plan",
        error="InvalidExperiment",
        row="invalid-experiment",
    )
