"""The lease: exclusive, first come first served, and no update is ever lost."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st
from specdecode import layout
from specdecode.cluster import lease as leases
from specdecode.cluster.lease import Lease
from specdecode.cluster.lease_store import LeaseContended, LeaseStore

from tests.specdecode.tasks.aws_fake import FakeS3, client_error

NOW = datetime(2026, 8, 1, tzinfo=UTC)
RUNS = ("a", "b", "c", "d")
Action = tuple[str, str]
actions = st.lists(st.tuples(st.sampled_from(["request", "release"]), st.sampled_from(RUNS)), max_size=30)


def apply(lease: Lease, action: Action, step: int = 0) -> Lease:
    kind, run = action
    now = NOW + timedelta(seconds=step)
    if kind == "request":
        return leases.request(lease, run_id=run, execution_arn=f"arn:{run}", now=now)
    return leases.release(lease, run_id=run, now=now)


@given(actions)
def test_it_is_exclusive_ordered_and_never_idle_while_somebody_waits(history):
    lease, waiting = Lease(), []
    for step, (kind, run) in enumerate(history):
        lease = apply(lease, (kind, run), step)
        if kind == "request" and run not in waiting:
            waiting.append(run)
        elif kind == "release" and run in waiting:
            waiting.remove(run)
        assert [claim.run_id for claim in lease.claims] == waiting
        assert (lease.holder is None) == (not waiting)
        assert lease.replicas == (1 if waiting else 0)
        assert all(claim.held_since is None for claim in lease.queue)
        assert lease.holder is None or lease.holder.held_since is not None


@given(actions, st.sampled_from(["request", "release"]), st.sampled_from(RUNS))
def test_doing_it_twice_is_doing_it_once(history, kind, run):
    lease = Lease()
    for action in history:
        lease = apply(lease, action)
    once = apply(lease, (kind, run))
    assert apply(once, (kind, run), 99) == once


@given(actions)
def test_the_document_survives_the_bucket(history):
    lease = Lease()
    for action in history:
        lease = apply(lease, action)
    assert Lease.model_validate_json(lease.model_dump_json()) == lease


@given(actions, actions, st.lists(st.booleans(), max_size=60))
def test_two_writers_lose_no_update(mine, theirs, interleaving):
    """The other writer strikes between a read and its write, wherever `interleaving` says so."""
    s3 = FakeS3()
    other = LeaseStore(s3=s3, bucket="b", sleep=lambda s: None)
    store = LeaseStore(s3=s3, bucket="b", sleep=lambda s: None)
    applied: list[Action] = []
    theirs, strikes, busy = list(theirs), list(interleaving), [False]

    def before(operation: str, key: str) -> None:
        if operation == "PutObject" and not busy[0] and theirs and (strikes.pop() if strikes else False):
            busy[0] = True
            action = theirs.pop()
            other.update(partial(apply, action=action))
            applied.append(action)
            busy[0] = False

    s3.before = before
    for action in mine:
        store.update(partial(apply, action=action))
        applied.append(action)
    expected = Lease()
    for action in applied:
        expected = apply(expected, action)
    assert store.read() == expected


def test_the_first_writer_creates_the_document_once():
    s3 = FakeS3()
    store = LeaseStore(s3=s3, bucket="b", sleep=lambda s: None)
    rival = LeaseStore(s3=s3, bucket="b", sleep=lambda s: None)
    raced = [False]

    def before(operation: str, key: str) -> None:
        if operation == "PutObject" and not raced[0]:
            raced[0] = True
            rival.update(partial(apply, action=("request", "rival")))

    s3.before = before
    found = store.update(partial(apply, action=("request", "late")))
    assert [claim.run_id for claim in found.claims] == ["rival", "late"]


def test_a_change_that_changes_nothing_is_not_written():
    s3 = FakeS3()
    LeaseStore(s3=s3, bucket="b").update(lambda lease: lease)
    assert layout.CAPACITY_KEY not in s3.objects


def test_endless_contention_is_given_up():
    s3 = FakeS3()

    def lose(operation: str, key: str) -> None:
        if operation == "PutObject":
            raise client_error("PreconditionFailed", http=412)

    s3.before = lose
    with pytest.raises(LeaseContended):
        LeaseStore(s3=s3, bucket="b", sleep=lambda s: None).update(partial(apply, action=("request", "a")))


def test_other_refusals_are_not_taken_for_a_lost_race():
    s3 = FakeS3()

    def deny(operation: str, key: str) -> None:
        raise client_error("AccessDenied", http=403)

    s3.before = deny
    with pytest.raises(Exception, match="AccessDenied"):
        LeaseStore(s3=s3, bucket="b").read()
