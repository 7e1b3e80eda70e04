"""Whatever fails, and whenever: nothing is paid for in the end, nothing measured is lost, and the cause is true."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from specdecode import finished, s3_keys
from specdecode.manifests import verified_copy
from specdecode.runs.lease import LeaseStore
from specdecode.store import Store

from tests.chaos import draws
from tests.chaos.draws import Draw, Played, draw, play, shrunk
from tests.chaos.faults import KINDS, Fault, Kind
from tests.end_to_end.page import write

DRAWS = 300
FOUND_WITHIN = 100


ONE_READ = Draw(3, "runs in a queue", (Fault("S3 loses answers", 900, 2400),))
"""The watchdog's last read of the lease fails, and none before it: an old node that a run holds."""


@pytest.mark.parametrize("drawn", [*map(draw, (0, 8, 22)), ONE_READ], ids=lambda drawn: str(drawn.seed))
def test_a_draw_keeps_every_promise(drawn: Draw) -> None:
    assert_kept(play(drawn))


def assert_kept(found: Played) -> None:
    if found.broken:
        found = shrunk(found)
    assert not found.broken, f"{found.draw}\nmake chaos SEED={found.draw.seed} plays it again"


def test_a_seed_says_everything() -> None:
    first, second = play(draw(4)), play(draw(4))
    assert (first.ends, first.hours, first.node_hours) == (second.ends, second.hours, second.node_hours)


def test_an_error_of_the_code_breaks_a_draw_and_names_its_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(*given: Any) -> str:
        raise KeyError("sha")

    monkeypatch.setattr(verified_copy, "read", wrong)
    found = play(Draw(7, "one node", (Fault("an end is not told", 900, 2400),)))
    assert "KeyError: 'sha'" in found.broken[0] and "test_chaos.py" in found.broken[0]
    with pytest.raises(AssertionError, match="make chaos SEED=7 "):
        assert_kept(found)


@pytest.mark.slow
def test_three_hundred_draws() -> None:
    played = [play(draw(seed)) for seed in range(DRAWS)]
    write("chaos", [(kind, *_told([each for each in played if _has(each.draw, kind)])) for kind in KINDS], key=1)
    for each in played:
        assert_kept(each)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_each_fault_changes_how_a_draw_ends(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    with_it = [each for each in map(draw, range(DRAWS)) if _has(each, kind)]
    monkeypatch.setitem(KINDS, "nothing", Kind())  # a draw goes on until its last fault is over, so none would differ
    assert any(_end(each) != _end(_without(kind, each)) for each in with_it)


def _without(kind: str, draw: Draw) -> Draw:
    return draw._replace(faults=tuple(f._replace(kind="nothing") if f.kind == kind else f for f in draw.faults))


def _end(draw: Draw) -> tuple[object, ...]:
    played = play(draw)
    return played.ends, played.hours, played.node_hours


def _has(draw: Draw, kind: str) -> bool:
    return any(fault.kind == kind for fault in draw.faults)


def _told(played: list[Played]) -> tuple[str, ...]:
    ends = [end.split() for each in played for end in each.ends.values()]
    status = Counter(end[0] for end in ends)
    causes = Counter(end[1] for end in ends if len(end) > 1)
    named = ", ".join(f"{cause} {count}" for cause, count in causes.most_common(5)) or "-"
    counts = (status["SUCCEEDED"], status["FAILED"], status["ABORTED"])
    return (str(len(played)), *map(str, counts), named, str(sum(bool(each.broken) for each in played)))


# --- broken on purpose


def dead_watchdog(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draws.Game, "_watch", lambda self: None)


def dead_backstop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draws.Game, "_backstop", lambda self: None)


def lease_written_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever wrote it meanwhile."""
    real = LeaseStore._write
    monkeypatch.setattr(LeaseStore, "_write", lambda self, lease, condition: real(self, lease, {}))


def no_hash_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """It copies all the same. Names and sizes are still compared."""
    real = verified_copy.read

    def read(*given: Any) -> str:
        found = real(*given)
        return "" if found.endswith("differs from its SHA-256") else found

    monkeypatch.setattr(verified_copy, "read", read)


def all_set_aside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is damaged, no folder stays."""
    real = finished.set_aside

    def aside(store: Store, prefix: str) -> None:
        for root in ("models/", "compiled/"):
            for path in store.listing(root):
                if path.endswith(s3_keys.COMPLETE):
                    real(store, root + path.removesuffix(s3_keys.COMPLETE))

    monkeypatch.setattr(finished, "set_aside", aside)


def test_a_draw_in_which_undamaged_folders_are_set_aside_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    all_set_aside(monkeypatch)
    assert "compiled/" in (broken := play(draw(24)).broken)[0] and "was set aside" in broken[0]


@pytest.mark.parametrize("given", [("x", "0"), ("7", "soon")])
def test_what_is_no_seed_is_told_in_one_line(given: tuple[str, str]) -> None:
    ended = subprocess.run([sys.executable, "-m", "tests.chaos", *given], capture_output=True, text=True, check=False)
    assert ended.returncode == 2 and len(ended.stderr.splitlines()) == 1


@pytest.mark.slow
@pytest.mark.parametrize("breaks", [dead_watchdog, dead_backstop, lease_written_twice, no_hash_check])
def test_what_is_broken_on_purpose_is_found(
    monkeypatch: pytest.MonkeyPatch, breaks: Callable[[pytest.MonkeyPatch], None]
) -> None:
    breaks(monkeypatch)
    found = next((each for seed in range(FOUND_WITHIN) if (each := play(draw(seed))).broken), None)
    assert found, f"not within {FOUND_WITHIN} draws"
    least = shrunk(found)
    assert least.broken and len(least.draw.faults) <= len(found.draw.faults)
    print(f"{breaks.__name__}: draw {found.draw.seed + 1}; least: {least.draw}; {least.broken[0]}")
