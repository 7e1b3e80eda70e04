"""The world in which most tests of steps begin."""

import pytest

from tests.specdecode.steps.world import World


@pytest.fixture
def world() -> World:
    return World()
