"""The lease: one holder a slot, first come first served within a kind, and no update is ever lost."""

import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, ValidationError
from specdecode import names, s3_keys
from specdecode.runs import lease as leases
from specdecode.runs.lease import Claim, Contended, Lease, LeaseStore
from specdecode.steps.watchdog import _without

from tests.specdecode.runs.crowd import Counted, StrictS3, check, etag, gather
from tests.specdecode.steps.aws_fake import FakeS3, client_error, denied

NOW = datetime(2026, 8, 1, tzinfo=UTC)
KIND_OF = dict.fromkeys("abcd", "trn2") | dict.fromkeys("ef", "cpu") | dict.fromkeys("hi", "cpu-large")
UNITS = {f"g-n{number}": "trn2" for number in range(1, 19)}
"""Claims of one run on more nodes than there are."""
"""Run -> kind of the node that it needs."""
RUNS = tuple(KIND_OF)
Action = tuple[str, str]
actions = st.lists(st.tuples(st.sampled_from(["request", "release"]), st.sampled_from(RUNS)), max_size=30)
ALL = [*RUNS, *UNITS]
whole_run = st.sampled_from([[], [("request", unit) for unit in UNITS]])
some = st.lists(st.tuples(st.sampled_from(["request", "release"]), st.sampled_from(ALL)), max_size=40)
many = st.builds(lambda before, first, after: before + first + after, some, whole_run, some)
sizes = st.sampled_from([1, 2, 3, 4, 16])
TWO = names.held_pools(2)


def apply(lease: Lease, action: Action, step: int = 0, slots: Sequence[str] = TWO) -> Lease:
    what, run = action
    now = NOW + timedelta(seconds=step)
    if what == "request":
        asks = {"run_id": run, "execution_arn": f"arn:{run}", "kind": (KIND_OF | UNITS)[run]}
        return leases.request(lease, now=now, slots=slots, **asks)
    return leases.release(lease, run_id=run, now=now, slots=slots)


@given(many, sizes)
def test_one_holder_a_slot_in_order_and_never_idle_while_somebody_waits(history, nodes):
    slots, lease, waiting = names.held_pools(nodes), Lease(), {"trn2": [], "cpu": [], "cpu-large": []}
    capacity = {"trn2": nodes, "cpu": 1, "cpu-large": 1}
    held: dict[str, str] = {}
    for step, (what, run) in enumerate(history):
        lease = apply(lease, (what, run), step, slots)
        line = waiting[(KIND_OF | UNITS)[run]]
        if what == "request" and run not in line:
            line.append(run)
        elif what == "release" and run in line:
            line.remove(run)
        for kind, runs in waiting.items():
            # Who came first holds: nobody of a kind is passed over, and no node is idle while one waits for it.
            assert {claim.run_id for claim in lease.holders_of(kind)} == set(runs[: capacity[kind]])
            assert [claim.run_id for claim in lease.queue if claim.kind == kind] == runs[capacity[kind] :]
            assert [lease.position(name) for name in runs[capacity[kind] :]] == list(range(1, len(runs) + 1))[
                : max(0, len(runs) - capacity[kind])
            ]
        assert len(lease.holders) == len(lease.pools) == lease.replicas == sum(map(lease.replicas_of, slots))
        assert lease.pools <= set(slots)
        assert all(claim.held_since is None and claim.pool == claim.kind for claim in lease.queue)
        now_held = {claim.run_id: claim.pool for claim in lease.holders}
        assert all(now_held.get(name, pool) == pool for name, pool in held.items()), "a run was moved to another node"
        held = now_held
        assert leases.impossible(lease, slots=slots, now=NOW + timedelta(seconds=step)) is None


def claim(run_id: str, pool: str = "trn2", **more: Any) -> Claim:
    return Claim(run_id=run_id, execution_arn="arn", pool=pool, queued_at=NOW, held_since=NOW, **more)


@pytest.mark.parametrize(
    ("holders", "words"),
    [
        (("trn2", "trn2"), "two runs hold the same node"),
        (("trn2", "trn2-3"), "'trn2-3', which is no pool of ours"),
        (("trn2-1",), "'trn2-1', which is no pool of ours"),
        (("trn2", "trn2-2", "trn2-2"), "two runs hold the same node"),
        (("staging",), "'staging', which is no pool of ours"),
    ],
)
def test_what_no_two_nodes_can_be_is_no_lease(holders, words):
    lease = Lease(holders=tuple(claim(f"r-{number}", pool) for number, pool in enumerate(holders)))
    assert words in leases.impossible(lease, slots=TWO, now=NOW)


def test_a_claim_in_the_queue_names_a_kind_and_no_slot():
    waiting = claim("r-1", "trn2-2").model_copy(update={"held_since": None})
    assert "no pool of ours" in leases.impossible(Lease(queue=(waiting,)), slots=TWO, now=NOW)


def test_a_smaller_deployment_takes_no_holder_for_nobody():
    """The guards refuse it while runs hold nodes; if it comes about all the same, the document is damaged."""
    lease = Lease(holders=(claim("r-1"), claim("r-2", "trn2-2")))
    assert "r-2 holds the node of 'trn2-2'" in leases.impossible(lease, slots=names.held_pools(1), now=NOW)


class OldLease(BaseModel):
    """As it was when there was one holder."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    holder: Claim | None = None
    queue: tuple[Claim, ...] = ()


@given(actions, sizes)
def test_a_version_with_one_holder_takes_no_document_with_holders_for_nobody_s(history, nodes):
    lease = Lease()
    for action in history:
        lease = apply(lease, action, slots=names.held_pools(nodes))
    try:
        assert OldLease.model_validate_json(lease.model_dump_json()).holder is None and not lease.holders
    except ValidationError:
        assert lease.holders


def test_what_a_version_with_one_holder_stored_is_read_as_what_it_says():
    old = OldLease(holder=claim("r-1"), queue=(claim("r-2").model_copy(update={"held_since": None}),))
    lease = Lease.model_validate_json(old.model_dump_json())
    assert (lease.holders, lease.queue) == ((old.holder,), old.queue)
    assert Lease.model_validate_json(OldLease().model_dump_json()) == Lease()


@given(many, st.sampled_from(["request", "release"]), st.sampled_from(ALL), sizes)
def test_doing_it_twice_is_doing_it_once(history, kind, run, nodes):
    lease, slots = Lease(), names.held_pools(nodes)
    for action in history:
        lease = apply(lease, action, slots=slots)
    once = apply(lease, (kind, run), slots=slots)
    assert apply(once, (kind, run), 99, slots) == once


@given(many, st.sets(st.sampled_from(ALL)), sizes)
def test_the_watchdog_takes_a_whole_run_out_at_once_and_moves_nobody(history, gone, nodes):
    """Those that hold and those that wait, in one write: who is left holds in order, each on its own node."""
    before, slots = Lease(), names.held_pools(nodes)
    for action in history:
        before = apply(before, action, slots=slots)
    ended = [claim for claim in before.claims if claim.run_id in gone]
    after = _without(before, ended=ended, now=NOW, slots=slots)
    for kind, capacity in (("trn2", nodes), ("cpu", 1), ("cpu-large", 1)):
        left = [claim.run_id for claim in before.claims if claim.kind == kind and claim.run_id not in gone]
        assert [claim.run_id for claim in after.holders_of(kind)] == left[:capacity]
        assert [claim.run_id for claim in after.queue if claim.kind == kind] == left[capacity:]
    kept = {claim.run_id: claim.pool for claim in before.holders if claim.run_id not in gone}
    assert kept.items() <= {claim.run_id: claim.pool for claim in after.holders}.items()
    assert leases.impossible(after, slots=slots, now=NOW + leases.SKEW) is None


@given(actions)
def test_the_document_survives_the_bucket(history):
    lease = Lease()
    for action in history:
        lease = apply(lease, action)
    assert Lease.model_validate_json(lease.model_dump_json()) == lease


@given(many, many, st.lists(st.booleans(), max_size=60), sizes)
def test_two_writers_lose_no_update(mine, theirs, interleaving, nodes):
    """The other writer strikes between a read and its write, wherever `interleaving` says so."""
    s3, slots = FakeS3(), names.held_pools(nodes)
    other = LeaseStore(s3=s3, bucket="b", slots=slots, sleep=lambda s: None, now=lambda: NOW)
    store = LeaseStore(s3=s3, bucket="b", slots=slots, sleep=lambda s: None, now=lambda: NOW)
    applied: list[Action] = []
    theirs, strikes, busy = list(theirs), list(interleaving), [False]

    def before(operation: str, key: str) -> None:
        if operation == "PutObject" and not busy[0] and theirs and (strikes.pop() if strikes else False):
            busy[0] = True
            action = theirs.pop()
            other.update(partial(apply, action=action, slots=slots))
            applied.append(action)
            busy[0] = False

    s3.before = before
    for action in mine:
        store.update(partial(apply, action=action, slots=slots))
        applied.append(action)
    expected = Lease()
    for action in applied:
        expected = apply(expected, action, slots=slots)
    assert store.read() == expected


def test_the_first_writer_creates_the_document_once():
    s3 = FakeS3()
    store = LeaseStore(s3=s3, bucket="b", slots=TWO, sleep=lambda s: None)
    rival = LeaseStore(s3=s3, bucket="b", slots=TWO, sleep=lambda s: None)
    raced = [False]

    def before(operation: str, key: str) -> None:
        if operation == "PutObject" and not raced[0]:
            raced[0] = True
            rival.update(partial(apply, action=("request", "b")))

    s3.before = before
    found = store.update(partial(apply, action=("request", "a")))
    assert [(claim.run_id, claim.pool) for claim in found.holders] == [("b", "trn2"), ("a", "trn2-2")]


def test_a_change_that_changes_nothing_is_not_written():
    s3 = FakeS3()
    LeaseStore(s3=s3, bucket="b").update(lambda lease: lease)
    assert s3_keys.CAPACITY_KEY not in s3.objects


def test_endless_contention_is_given_up():
    s3 = FakeS3()

    def lose(operation: str, key: str) -> None:
        if operation == "PutObject":
            raise client_error("PreconditionFailed", http=412)

    s3.before = lose
    with pytest.raises(Contended):
        LeaseStore(s3=s3, bucket="b", sleep=lambda s: None).update(partial(apply, action=("request", "a")))


def test_other_refusals_are_not_taken_for_a_lost_race():
    s3 = FakeS3()
    s3.before = denied
    with pytest.raises(Exception, match="AccessDenied"):
        LeaseStore(s3=s3, bucket="b").read()


@pytest.mark.parametrize("nodes", [4, *(pytest.param(nodes, marks=pytest.mark.slow) for nodes in (1, 2, 16))])
def test_a_hundred_runs_take_turns_in_the_order_of_their_coming(nodes):
    crowd = gather(StrictS3(), bucket="b", runs=100, stopped=50, nodes=nodes, sleep=lambda s: time.sleep(s / 200))
    check(crowd, runs=100, nodes=nodes)
    assert crowd.largest < 64 * 1024
    assert len(crowd.doomed) == 50 and not crowd.doomed & set(crowd.held)


def test_a_write_whose_answer_was_lost_is_among_those_that_the_crowd_is_judged_by():
    def put(*, Body: bytes, **_: str) -> dict[str, str]:
        if Body in {b"lost", b"refused"}:
            raise client_error("PreconditionFailed", "PutObject", 412)
        return {"ETag": etag(Body)}

    s3 = Counted(SimpleNamespace(put_object=put))
    s3.put_object(Body=b"first", IfNoneMatch="*")
    for body in (b"refused", b"lost"):
        with pytest.raises(ClientError):
            s3.put_object(Body=body, IfMatch=etag(b"first"))
    s3.put_object(Body=b"last", IfMatch=etag(b"lost"))
    assert s3.documents == [b"first", b"lost", b"last"]
