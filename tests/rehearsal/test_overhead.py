"""The cost of the orchestration, from made-up histories with a known answer."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from specdecode import names

from rehearsal import tools
from rehearsal.cloud.kubernetes import Kubernetes
from tests.end_to_end.overhead import table
from tests.end_to_end.overhead.observer import Observer
from tests.end_to_end.overhead.shares import Span, shares
from tests.end_to_end.page import PAGE, part

START = datetime(2026, 8, 1, 12, tzinfo=UTC)
SCALE = 0.1


class History:
    """Makes the events of a run in order, each some seconds after the last."""

    def __init__(self) -> None:
        self.events: list[dict[str, Any]] = []
        self.at = 0.0
        self.state = ""

    def event(self, kind: str, seconds: float = 0.0, **details: Any) -> History:
        self.at += seconds
        self.events.append({"type": kind, "timestamp": START + timedelta(seconds=self.at), **details})
        return self

    def look(self, name: str, *, function: float, wait: float | None = None) -> History:
        """One look at a step, and the pause after it, at its shortened length. Without a pause the step is done."""
        if self.state != name:
            self.state = name
            self.event("TaskStateEntered", stateEnteredEventDetails={"name": name})
        self.event("TaskScheduled").event("TaskStarted")
        if wait is not None:
            return self.event("TaskFailed", function).pause(wait)
        self.state = ""
        return self.event("TaskSucceeded", function).event("TaskStateExited", stateExitedEventDetails={"name": name})

    def pause(self, seconds: float) -> History:
        self.at += seconds
        return self


def at(seconds: float) -> float:
    return (START + timedelta(seconds=seconds)).timestamp()


def span(state: str, started: float, ended: float) -> Span:
    return Span(state, at(started), at(ended))


def compiled() -> History:
    """Two looks with a wait of 6 s (60 s in full) between: begun after 2 s, over after 10 s, so 1 s long unnoticed."""
    history = History().look("Compile", function=2.0, wait=6.0).look("Compile", function=0.5, wait=6.0)
    return history.look("Compile", function=0.5)


def test_looks_functions_and_waits_at_full_length() -> None:
    (found,) = shares(compiled().events, wait_scale=SCALE)
    assert (found.looks, found.functions_s, found.waits_s) == (3, pytest.approx(3.0), pytest.approx(120.0))
    assert (found.work_s, found.lost_s) == (0, 0), "no node, no node time"


def test_a_wait_counts_only_where_nothing_went_on_and_then_at_full_length() -> None:
    work, node = span("Compile", 2, 13.5), span("node", 0, 15)
    (found,) = shares(compiled().events, wait_scale=SCALE, node=node, spans=[work])
    assert found.work_s == pytest.approx(11.5)
    assert found.lost_s == pytest.approx(2.0 + 1.0 / SCALE + 0.5)


def test_time_before_the_node_is_usable_and_after_it_is_given_back_is_not_the_node_s() -> None:
    (found,) = shares(compiled().events, wait_scale=SCALE, node=span("node", 7, 9), spans=[])
    assert found.lost_s == pytest.approx(1.0 / SCALE + 0.5 + 0.5 / SCALE)


def test_what_goes_on_at_the_same_time_counts_once() -> None:
    works = [span("Compile", 2, 10), span("Compile", 4, 13.5)]
    (found,) = shares(compiled().events, wait_scale=SCALE, node=span("node", 0, 15), spans=works)
    assert found.work_s == pytest.approx(11.5)


def test_the_smoke_test_s_pod_is_the_orchestration_s_at_its_own_length() -> None:
    events = History().look("Smoke", function=1.0, wait=2.0).look("Smoke", function=0.5).events
    (found,) = shares(events, wait_scale=SCALE, node=span("node", 0, 9), spans=[span("Smoke", 1, 2)])
    assert (found.work_s, found.lost_s) == (0, pytest.approx(1.0 + 1.0 + 1.0 / SCALE + 0.5))


def test_work_that_outlasts_its_state_hides_nothing_of_the_next() -> None:
    history = compiled().look("Serve", function=3.0)
    node, work = span("node", 0, 18), span("Compile", 2, 16)
    _, serve = shares(history.events, wait_scale=SCALE, node=node, spans=[work])
    assert serve.lost_s == pytest.approx(3.0)


def test_the_pause_before_a_retry_is_a_wait() -> None:
    history = History().event("TaskStateEntered", stateEnteredEventDetails={"name": "Serve"})
    history.event("TaskScheduled").event("TaskFailed", 1.0).event("TaskScheduled", 0.3).event("TaskSucceeded", 1.0)
    (found,) = shares(history.event("TaskStateExited").events, wait_scale=SCALE)
    assert (found.functions_s, found.waits_s) == (pytest.approx(2.0), pytest.approx(3.0))


def changed(kind: str, name: str, **more: Any) -> tuple[str, dict[str, Any]]:
    labels = {names.COMPONENT_LABEL: more.pop("component"), names.WAVE_LABEL: "0"} if "component" in more else {}
    return kind, {"metadata": {"name": name, "labels": labels, **more.pop("metadata", {})}, **more}


def test_the_observer_knows_when_things_began_and_ended() -> None:
    ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    over = {"status": {"conditions": [{"type": "Complete", "status": "True"}]}}
    seen = Observer(kubernetes=Kubernetes(url="", ca_file=tools.ROOT, token=""))
    for moment, (change, (kind, obj)) in enumerate(
        [
            ("ADDED", changed("NodePool", names.NODEPOOL, spec={"replicas": 0})),
            ("MODIFIED", changed("NodePool", names.NODEPOOL, spec={"replicas": 1})),
            ("ADDED", changed("Node", "n", **ready)),
            ("ADDED", changed("ResourceSlice", "n-x7k2p", spec={"nodeName": "n"})),
            ("ADDED", changed("Job", "c", component="compile")),
            ("MODIFIED", changed("Job", "c", component="compile", **over)),
            ("ADDED", changed("Deployment", "d1", component="serving")),
            ("ADDED", changed("Deployment", "d2", component="serving")),
            ("MODIFIED", changed("Pod", "p1", component="serving", **ready)),
            ("MODIFIED", changed("Pod", "p2", component="serving", **ready)),
            ("DELETED", changed("Deployment", "d1", component="serving")),
            ("DELETED", changed("Pod", "p1", component="serving")),
            ("DELETED", changed("Pod", "p2", component="serving")),
            ("MODIFIED", changed("NodePool", names.NODEPOOL, spec={"replicas": 0})),
        ]
    ):
        seen.note(kind, change, obj, at=float(moment))
    assert seen.node("n") == Span("node", 3.0, 13.0)
    assert seen.spans() == [Span("Compile", 4.0, 5.0), Span("Serve", 6.0, 9.0), Span("StopArms", 10.0, 12.0)]


def test_the_page_has_the_table_of_the_result() -> None:
    kept = json.loads((tools.ROOT / "benchmarks" / "results" / "overhead.json").read_text())
    assert [line for line in part(PAGE.read_text(), "overhead") if line] == [line for line in table.lines(kept) if line]


def test_a_person_by_hand_must_notice_every_end() -> None:
    spans = [span("Compile", 0, 1), span("Compile", 1, 2), span("Serve", 2, 3), span("StopArms", 4, 5)]
    history = compiled().look("Serve", function=1.0).look("StopArms", function=1.0)
    found = table.document(shares(history.events, wait_scale=SCALE), spans, wait_scale=SCALE, events=9, worst=99)
    assert {share["state"]: share["by_hand_moments"] for share in found["shares"]} == {
        "Compile": 2,
        "Serve": 1,
        "StopArms": 1,
    }
    assert "| **8.0 min, $4.77** | **30.0 min, $17.88** |" in "\n".join(table.lines(found))
