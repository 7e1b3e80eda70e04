"""docs/security-access.csv: who may make which call, and how that is known."""

import csv
import io
from collections.abc import Iterable

from tests.access.calls import RUN_STEPS, Call
from tests.access.calls_control import CALLS
from tests.access.principals import GUARDS, IN_VPC, PODS, ROLES, STEPS
from tests.access.trial import Found

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
    return ", ".join([*words, *(name for name in ROLES if name in left)]) or "nobody"


def shown(call: Call) -> str:
    return call.what.replace("`", "")


def row(call: Call, found: Found) -> tuple[str, ...]:
    """A line of the table. Raises AssertionError where a call that was made went otherwise than it must."""
    if call.request is None:
        proof = "policy"
    else:
        assert set(ROLES) - found.refused.get(call.what, set()) == call.may, call.what
        proof = "tried" if call.what in found.enforced else "policy, tried"
    refused = len(set(ROLES) - call.may)
    return shown(call), call.action, spelled(call.may), str(refused), proof


def page(found: Found) -> str:
    text = io.StringIO()
    head = ("call", "action", "who may", "refused to", "proof")
    csv.writer(text, lineterminator="\n").writerows([head, *(row(call, found) for call in CALLS)])
    return text.getvalue()
