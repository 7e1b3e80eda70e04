"""One context for all manifests' tests."""

from __future__ import annotations

import pytest
from specdecode.manifests import RenderContext


@pytest.fixture(scope="session")
def ctx():
    return RenderContext(
        run_id="qwen3-32b-20261121-120000-ab12",
        bucket="artifacts",
        bundle_uri="s3://assets/bundle.zip",
        bundle_sha256="ab" * 32,
        region="us-east-2",
    )
