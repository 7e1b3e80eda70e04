"""What Karpenter's controllers do that the pipeline relies on, read in their source."""

from __future__ import annotations

import re

from tests.upstream.conftest import Upstream


def test_a_static_pool_that_is_not_ready_is_silent(upstream: Upstream) -> None:
    """Static provisioning returns at once, with no event and no error, while the NodePool is not Ready."""
    source = upstream.text("karpenter-core", "pkg/controllers/static/provisioning/controller.go")
    body = source.partition(") Reconcile(")[2].partition("\nfunc ")[0]
    first = re.search(r"\n\tif (.*?) \{\n(.*?)\n\t\}", body, re.DOTALL)
    assert first
    assert "!np.StatusConditions().Root().IsTrue()" in first[1]
    assert first[2].strip() == "return reconcile.Result{}, nil"
    assert "Publish(" not in source, "it tells of something now: read what, and use it"
