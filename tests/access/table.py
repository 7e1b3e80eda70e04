"""docs/security-access.md: who may make which call, and how that is known."""

from __future__ import annotations

from collections.abc import Iterable

from tests.access.calls import RUN_STEPS, Call
from tests.access.calls_control import CALLS
from tests.access.principals import GUARDS, IN_VPC, PODS, ROLES, STEPS
from tests.access.trial import Found

MARK = "<!-- from here on written by tests/end_to_end/trust.py -->"
GROUPS = (
    (STEPS, "every function"),
    (RUN_STEPS, "every function but Inspect"),
    (IN_VPC, "every function that reaches the cluster"),
    (GUARDS, "both guards"),
    (PODS, "every pod"),
)
"""Names for many, the largest first."""


def spelled(principals: Iterable[str]) -> str:
    """The principals in words: groups where all of one are there."""
    left, words = set(principals), []
    for group, word in GROUPS:
        if group <= left:
            words.append(word)
            left -= group
    return ", ".join([*words, *(f"`{name}`" if name in PODS else name for name in ROLES if name in left)]) or "nobody"


def row(call: Call, found: Found) -> str:
    """A line of the table. Raises AssertionError where a call that was made went otherwise than it must."""
    if call.request is None:
        proof = "policy"
    else:
        assert set(ROLES) - found.refused.get(call.what, set()) == call.may, call.what
        proof = "tried" if call.what in found.enforced else "policy, tried"
    refused = len(set(ROLES) - call.may)
    return f"| {call.what} | `{call.action}` | {spelled(call.may)} | {refused} | {proof} |"


def page(before: str, found: Found) -> str:
    """The page with the table of this run."""
    head = before.partition(MARK)[0]
    lines = ["| call | action | who may | refused to | proof |", "|---|---|---|---|---|"]
    return f"{head}{MARK}\n\n" + "\n".join([*lines, *(row(call, found) for call in CALLS)]) + "\n"


def rows(text: str) -> list[tuple[str, ...]]:
    """The lines of the table on the page."""
    table = text.partition(MARK)[2]
    return [tuple(line.strip("| ").split(" | ")) for line in table.splitlines() if line.startswith("| ")][1:]
