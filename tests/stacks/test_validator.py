"""The CDK's CloudFormation validator. Seven CPU seconds, so a step of its own: `make validate`."""

import os
from pathlib import Path

import pytest

from tests.conftest import synthesize

pytestmark = pytest.mark.synth


@pytest.mark.skipif(os.environ.get("CDK_VALIDATION") != "true", reason="a step of its own: make validate")
def test_the_validator_finds_nothing(tmp_path: Path) -> None:
    assert synthesize(tmp_path, validator=True, accept_no_alerts="true").findings == ()
