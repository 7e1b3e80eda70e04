"""One context for all manifests' tests."""

import pytest
from specdecode.experiment import load_preset, preset_names
from specdecode.manifests import RenderContext, all_objects

from tests.plans import PRICED, plan_for


@pytest.fixture(scope="session")
def ctx():
    return RenderContext(
        run_id="qwen3-32b-20261121-120000-ab12",
        bucket="artifacts",
        bundle_uri="s3://assets/bundle.zip",
        bundle_sha256="ab" * 32,
        region="us-east-2",
    )


@pytest.fixture(scope="module", params=preset_names())
def rendered(request, ctx):
    plan = plan_for(load_preset(request.param, overrides={"accuracy": True}), capacity=PRICED)
    return plan, all_objects(plan, ctx)
