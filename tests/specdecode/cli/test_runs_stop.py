"""`specdecode stop` and `capacity --release`: the right run is stopped, and its node is given back."""

import pytest
from botocore.exceptions import ClientError
from specdecode import names
from specdecode.cli.runs_deployment import Execution
from specdecode.runs.cluster_view import ClusterView
from specdecode.runs.lease import Claim, Lease
from specdecode.runs.state import StateDamaged

from tests.specdecode.cli.runs_fake import NOW, POD, RUNNING, FakeDeployment


def test_stop_stops_and_waits_for_the_release(command):
    result = command("stop", "r")
    assert result.exit_code == 0
    assert FakeDeployment.stopped == ["arn:r"]
    assert "released; the node pools have 0 replicas" in result.output


@pytest.mark.parametrize(("says", "code", "stopped"), [("y\n", 0, ["arn:r"]), ("n\n", 1, [])])
def test_stop_without_a_run_names_it_and_whose_it_is_and_asks(answering, monkeypatch, says, code, stopped):
    monkeypatch.setattr(FakeDeployment, "started_by", FakeDeployment.caller_is)
    result = answering("stop", says=says)
    assert (result.exit_code, FakeDeployment.stopped) == (code, stopped)
    assert "started by  assumed-role/Admin/anna" in result.output
    assert "Stop r? [y/N]" in result.output
    assert ("r goes on" in result.output) == (not stopped)


def test_stop_without_a_run_and_without_a_terminal_wants_yes(command):
    result = command("stop")
    assert (result.exit_code, FakeDeployment.stopped) == (2, [])
    assert "give --yes (r goes on)" in result.stderr
    FakeDeployment.looks = 0
    assert command("stop", "--yes").exit_code == 0
    assert FakeDeployment.stopped == ["arn:r"]


QUEUED = Execution(**{**vars(RUNNING), "run_id": "newer", "arn": "arn:newer"})


def test_stop_without_a_run_takes_the_one_that_holds_the_node_not_the_newest(command, monkeypatch):
    monkeypatch.setattr(FakeDeployment, "executions", lambda self, *, limit: [QUEUED, RUNNING][:limit])
    monkeypatch.setattr(FakeDeployment, "execution", lambda self, run_id: QUEUED)
    result = command("stop", "--yes")
    assert (result.exit_code, FakeDeployment.stopped) == (0, ["arn:r"])
    assert "r holds the node" in result.output and "released" in result.output


def test_stop_without_a_run_takes_the_newest_that_goes_on_where_nobody_holds(command, monkeypatch):
    FakeDeployment.held = False
    over = Execution(**{**vars(RUNNING), "run_id": "over", "arn": "arn:over", "status": "SUCCEEDED"})
    monkeypatch.setattr(FakeDeployment, "executions", lambda self, *, limit: [over, RUNNING][:limit])
    result = command("stop", "--yes")
    assert (result.exit_code, FakeDeployment.stopped) == (0, ["arn:r"])
    assert "nobody holds a node; the newest run that goes on is r" in result.output


NOBODY = ClusterView(lease=Lease(), lease_read=True, replicas=1, nodes=("n of trn2 (Ready)",), pods=())
UNREAD = NOBODY.model_copy(update={"lease_read": False, "problems": ("the node's lease: ReadTimeout",)})


@pytest.fixture(params=[UNREAD, UNREAD.model_copy(update={"lease_read": None})], ids=["now", "an older deployment"])
def unread(request, command, monkeypatch):
    """The watchdog reads the lease, and the inspect function cannot."""
    FakeDeployment.found = {"replicas": 1}
    monkeypatch.setattr(FakeDeployment, "cluster", lambda self: request.param)


@pytest.mark.parametrize("arguments", [("stop", "--yes"), ("capacity", "--release", "--yes")])
def test_none_is_stopped_and_all_are_named_where_it_is_not_known_who_holds_the_node(
    command, unread, monkeypatch, arguments
):
    monkeypatch.setattr(FakeDeployment, "executions", lambda self, *, limit: [QUEUED, RUNNING][:limit])
    result = command(*arguments)
    assert (result.exit_code, FakeDeployment.stopped) == (1, [])
    assert "nobody" not in result.output and "problem: the node's lease: ReadTimeout" in result.stderr
    assert "Stop each run that goes on:\n  specdecode stop newer\n  specdecode stop r\n" in result.stderr


def test_where_no_run_goes_on_and_the_lease_is_unread_nobody_is_not_said(command, unread, monkeypatch):
    monkeypatch.setattr(FakeDeployment, "executions", lambda self, *, limit: [])
    released = command("capacity", "--release")
    assert (released.exit_code, "No run goes on. Try again" in released.stderr) == (1, True)
    for result in (released, command("stop"), command("capacity")):
        assert "nobody" not in result.output
    assert "holder    not known" in command("capacity").stdout


def test_a_node_is_said_to_be_given_back_only_once_the_lease_is_read(command, unread, monkeypatch):
    result = command("stop", "r")
    assert (result.exit_code, "released" in result.output) == (1, False)
    assert "r may still hold a node: the lease cannot be read; the watchdog goes on" in result.stderr
    looks = iter([UNREAD, UNREAD, NOBODY])
    monkeypatch.setattr(FakeDeployment, "cluster", lambda self: next(looks))
    assert (command("stop", "r").exit_code, list(looks)) == (0, [])


def test_what_else_could_not_be_read_hides_no_holder(command, monkeypatch):
    seen = NOBODY.model_copy(update={"problems": ("the queue of the servers that already run: ReadTimeout",)})
    monkeypatch.setattr(FakeDeployment, "cluster", lambda self: seen)
    assert "holder    nobody" in command("capacity").stdout
    result = command("stop", "--yes")
    assert (result.exit_code, FakeDeployment.stopped) == (0, ["arn:r"])
    assert "nobody holds a node; the newest run that goes on is r" in result.output


def test_stop_where_no_run_goes_on_says_so_and_gives_the_node_back_all_the_same(command, monkeypatch):
    FakeDeployment.held = False
    monkeypatch.setattr(FakeDeployment, "executions", lambda self, *, limit: [])
    result = command("stop")
    assert (result.exit_code, FakeDeployment.stopped, FakeDeployment.reconciled) == (0, [], 1)
    assert "no run goes on" in result.output and "the node pools have 0 replicas" in result.output


def test_stop_gives_back_the_node_of_a_holder_that_step_functions_has_forgotten(command):
    FakeDeployment.remembered = False
    result = command("stop")
    assert (result.exit_code, FakeDeployment.stopped) == (0, [])
    assert "r has already ended: Step Functions has forgotten it" in result.output and "released" in result.output


def test_stop_of_a_run_that_has_ended_only_makes_sure(command):
    FakeDeployment.looks = 5
    result = command("stop", "r")
    assert FakeDeployment.stopped == []
    assert "already ended" in result.output
    assert "released" in result.output


def test_capacity_shows_the_holder_and_releases(command):
    assert "holder    r for" in command("capacity").output
    result = command("capacity", "--release", "--yes")
    assert "holder    nobody" in result.output
    assert FakeDeployment.stopped == ["arn:r"]


@pytest.mark.parametrize(("says", "code", "stopped"), [("y\n", 0, ["arn:r"]), ("n\n", 1, [])])
def test_a_release_asks_before_it_stops_a_run_that_goes_on(answering, says, code, stopped):
    result = answering("capacity", "--release", says=says)
    assert (result.exit_code, FakeDeployment.stopped) == (code, stopped)
    assert "r holds the node. Stop it? [y/N]" in result.output


def test_a_release_without_a_terminal_stops_no_run_but_has_run_the_watchdog(command):
    FakeDeployment.found = {"replicas": 1, "problems": ["a queue is damaged"]}
    result = command("capacity", "--release")
    assert (result.exit_code, FakeDeployment.stopped, FakeDeployment.reconciled) == (2, [], 1)
    assert "problem: a queue is damaged" in result.stderr and "give --yes (r goes on)" in result.stderr


@pytest.fixture
def two_hold(monkeypatch):
    """Two of three nodes' runs: r and s; t waits."""
    first = Claim(run_id="r", execution_arn="arn:r", queued_at=NOW, held_since=NOW)
    second = first.model_copy(update={"run_id": "s", "pool": "trn2-2"})
    waits = first.model_copy(update={"run_id": "t", "held_since": None})
    lease = Lease(holders=(first, second), queue=(waits,))
    view = ClusterView(lease=lease, slots=names.held_pools(2), replicas=2, nodes=(), pods=())
    # As it comes from the function, which answers JSON.
    view = ClusterView.model_validate_json(view.model_dump_json())
    monkeypatch.setattr(FakeDeployment, "cluster", lambda self: view)


def test_capacity_shows_who_has_which_node(command, two_hold):
    said = command("capacity").output
    for words in ("holder    r for", "(trn2)", "holder    s for", "(trn2-2)", "waiting 1 t for", "replicas  2"):
        assert words in said


@pytest.mark.parametrize("arguments", [("stop", "--yes"), ("capacity", "--release")])
def test_where_two_runs_hold_a_node_none_is_stopped_unless_it_is_named(command, two_hold, arguments):
    result = command(*arguments)
    assert (result.exit_code, FakeDeployment.stopped) == (2, [])
    assert "2 runs hold a node each" in result.stderr
    assert "specdecode stop r" in result.stderr and "specdecode stop s" in result.stderr


def test_a_run_whose_pods_stand_is_not_said_to_be_released(command, monkeypatch):
    stands = ClusterView(lease=Lease(), replicas=0, nodes=(), pods=(POD,))
    monkeypatch.setattr(FakeDeployment, "cluster", lambda self: stands)
    result = command("stop", "r")
    assert result.exit_code == 1 and "r still has workloads" in result.stderr and "released" not in result.stdout


def test_a_holder_that_step_functions_has_forgotten_is_released_too(command):
    FakeDeployment.remembered = False
    result = command("capacity", "--release")
    assert (result.exit_code, FakeDeployment.stopped) == (0, [])
    assert "nobody holds a node\nthe node pools have 0 replicas" in result.output


def test_a_node_that_nobody_holds_is_brought_to_zero_by_the_watchdog(command):
    FakeDeployment.held = False
    result = command("capacity", "--release")
    assert FakeDeployment.reconciled == 1
    assert "nobody holds a node\nthe node pools have 0 replicas" in result.output


def test_a_release_whose_watchdog_fails_says_what_happens_by_itself_and_what_to_do(command):
    FakeDeployment.broken = True
    for arguments in (("stop", "r"), ("capacity", "--release")):
        result = command(*arguments)
        assert result.exit_code == 3
        assert "Task timed out" in result.stderr
        assert "The backstop" in result.stderr and "docs/operations.md#a-node-that-stays" in result.stderr


@pytest.mark.parametrize("error", [StateDamaged("?"), ClientError({"Error": {"Code": "AccessDenied"}}, "GetObject")])
def test_a_run_whose_record_cannot_be_read_is_shown_and_stopped(command, monkeypatch, error):
    def unreadable(self, run_id):
        raise error

    monkeypatch.setattr(FakeDeployment, "state", unreadable)
    monkeypatch.setattr(FakeDeployment, "plan", unreadable)
    assert "Serve" in command("status", "r").stdout
    FakeDeployment.looks = 0
    result = command("stop", "--yes")
    assert (result.exit_code, FakeDeployment.stopped) == (0, ["arn:r"])


def test_what_the_watchdog_could_not_do_is_said_and_the_node_is_released_all_the_same(command):
    FakeDeployment.found = {
        "replicas": 0,
        "problems": ["s3://b/state/capacity.json is no lease"],
        "deleted": ["trn2-x"],
    }
    result = command("stop", "r")
    assert result.exit_code == 0
    assert "released; the node pools have 0 replicas" in result.stdout
    assert "deleted node trn2-x" in result.stdout
    assert "problem: s3://b/state/capacity.json is no lease" in result.stderr


def test_a_lease_that_cannot_be_read_while_runs_go_on_names_them(command):
    FakeDeployment.found, FakeDeployment.held = {"replicas": None, "problems": ["the node: AccessDenied"]}, False
    result = command("capacity", "--release")
    assert result.exit_code == 1
    assert "specdecode stop r" in result.stderr and "AccessDenied" in result.stderr
    assert "nobody holds" not in result.output
