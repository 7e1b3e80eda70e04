"""Pods can make the calls that they need and no others, with the credentials that they really get. The same calls
decided from the policies are in tests/stacks/test_access.py, that of every other role in tests/end_to_end/trust.py.
"""

import pytest

from tests.access.calls_control import CALLS
from tests.access.principals import PODS

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("call", [call for call in CALLS if call.request], ids=lambda call: call.what)
def test_exactly_these_pods_may(rehearsed, call):
    assert PODS - rehearsed.tried.refused.get(call.what, set()) == call.may & PODS


def test_a_token_that_is_not_quite_the_pods_gets_no_role(rehearsed):
    assert rehearsed.strangers == set()


def test_a_session_reaches_the_folders_of_its_step_of_its_run_and_no_others(rehearsed):
    """The role alone would reach the objects of every run. STS and S3 of the embedded cloud decide by role and session
    together.
    """
    weights, artifact = "models/own@main/model.safetensors", "compiled/own/model.pt"
    raw, servers = "runs/own/raw/base/count.jsonl", "runs/own/servers.json"
    assert rehearsed.reached == {
        "staging": {f"read {weights}", f"write {weights}"},
        "compile": {f"read {weights}", f"read {artifact}", f"write {artifact}"},
        "results": {f"{verb} {key}" for verb in ("read", "write") for key in (raw, servers)},
    }
