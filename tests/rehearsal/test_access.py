"""Pods can call what they must and nothing else, with the credentials that they really get; the policies' view of the
same calls is in tests/stacks/test_access.py, that of every other role in tests/rehearsal_trust.py.
"""

import pytest

from tests.access.calls_control import CALLS
from tests.access.principals import PODS

pytestmark = [pytest.mark.rehearsal, pytest.mark.timeout(600)]


@pytest.mark.parametrize("call", [call for call in CALLS if call.request], ids=lambda call: call.what)
def test_exactly_these_pods_may(rehearsed, call):
    assert PODS - rehearsed.tried.refused.get(call.what, set()) == call.may & PODS


def test_a_token_that_is_not_quite_the_pods_gets_no_role(rehearsed):
    assert rehearsed.strangers == set()
