"""A rehearsal leaves no secret in anything, not even in its run that fails."""

import pytest

from tests.canaries import HUGGING_FACE, traces

from .came_out import INTERNAL
from .conftest import MARKER

pytestmark = pytest.mark.slow


def test_all_that_comes_out_is_looked_at(rehearsed):
    """The description of an experiment, which is no secret, is found in every place where it goes."""
    where = traces(MARKER, rehearsed.came_out)
    run = rehearsed.folder.name
    assert {f"history/{run}", f"s3/runs/{run}/experiment.yaml", f"s3/runs/{run}/report.html"} <= set(where)
    kinds = {name.partition("/")[0] for name in rehearsed.came_out}
    assert kinds >= {"cdk.out", "s3", "logs", "history", "metrics", "alarms", "dashboard", "stacks", "function", "rule"}
    said = {name for name, text in rehearsed.came_out.items() if name.startswith("logs/") and b'"begin"' in text}
    assert len(said) >= 12, "functions' logs"
    assert [name for name in rehearsed.came_out if "/diagnostics/logs/" in name], "pods' logs"
    assert [name for name in rehearsed.came_out if name.startswith("cdk.out/") and name.endswith(".py")], "the bundle"


def test_no_secret_that_it_had_is_anywhere(rehearsed):
    """The token for Hugging Face, the servers' keys, the pods' sessions, the cluster's administrator."""
    assert len(rehearsed.keys) == 2 and len(rehearsed.sessions) >= 2
    for secret in (HUGGING_FACE, rehearsed.administrator, *rehearsed.keys, *rehearsed.sessions):
        assert traces(secret, rehearsed.came_out | {"console": rehearsed.log.encode()}) == []


def test_no_key_session_or_bearer_token_is_anywhere(rehearsed):
    texts = rehearsed.came_out | {"console": rehearsed.log.encode()}
    # The code contains the prefix of EKS's tokens. The tokens themselves are searched for in everything else.
    leaks = {
        (name, match[0][:12])
        for name, text in texts.items()
        if not name.startswith("cdk.out/asset.")
        for match in INTERNAL.finditer(text)
    }
    assert leaks == set()
