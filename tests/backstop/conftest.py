"""The services that the backstop calls."""

import pytest

from tests.backstop.aws import OLD, Aws


@pytest.fixture
def aws() -> Aws:
    """One old instance of the pool, nobody who watches, nothing that runs."""
    made = Aws()
    made.instance("i-old", OLD)
    return made
