"""The CDK's CloudFormation validator."""

from pathlib import Path

import pytest

from tests.conftest import synthesize

pytestmark = [pytest.mark.synth, pytest.mark.slow]


def test_the_validator_finds_nothing(tmp_path: Path) -> None:
    assert synthesize(tmp_path, validator=True, accept_no_alerts="true").findings == ()
