"""How often the steps look: often while something is likely to happen, then as rarely as the plan says.

How many looks an execution's history can hold is in `planning/events.py`.
"""

from datetime import timedelta

from specdecode.planning import Plan
from specdecode.planning.events import SOON_FOR, SOON_S, STILL_ATTENTIVE
from specdecode.planning.timeline import STOP_MINUTES

STOP_LIMIT = timedelta(minutes=STOP_MINUTES)
"""Limit for deleting workloads. The node pool's terminationGracePeriod is 10 minutes: what is left after that does not
leave by itself.
"""


def soon(age: timedelta, *, then_s: int) -> int:
    """Seconds until the next look at something that began `age` ago: short at first, `then_s` afterwards."""
    return SOON_S if age < SOON_FOR else then_s


def attentive(plan: Plan, age: timedelta, *, expected_min: float) -> int:
    """Seconds until the next look at work on the node that began `age` ago and takes `expected_min` minutes or less."""
    expected = timedelta(minutes=expected_min) + STILL_ATTENTIVE
    return plan.attentive_seconds if age <= expected else plan.poll_seconds
