"""Faults, end to end: the deployed definition, zips and manifests on the embedded cloud.
Writes docs/reference/faults.md.

Not part of `make test` (it takes two hours). Run it, or one of its files, with

    .venv/bin/pytest tests/end_to_end/faults/*.py [-k one-node] [-k two-nodes]

Every case ends with the same checks: the right final status, a readable cause, no workload object left, the NodePool at
0 replicas, nobody holding the lease, and diagnostics where the run failed. With two nodes another run measures on the
other one, and must work on undisturbed.
"""

from collections.abc import Iterator

import pytest

from tests.end_to_end.beside import Beside
from tests.end_to_end.cloud import Cloud, deployed
from tests.end_to_end.page import write_beside, write_faults


@pytest.fixture(scope="session", params=[1, 2], ids=["one-node", "two-nodes"])
def cloud(request: pytest.FixtureRequest) -> Iterator[Cloud]:
    with deployed(nodes=request.param) as running:
        made = Cloud(running)
        if request.param == 2:
            made.beside = Beside(made)
        yield made
        if made.beside:
            made.beside.finish()


@pytest.fixture(autouse=True)
def _no_faults(cloud: Cloud, request: pytest.FixtureRequest) -> Iterator[None]:
    """A case begins without faults of others, leaves none, and what it noted goes into the page at once."""
    one_node = request.node.get_closest_marker("one_node")
    if cloud.beside:
        if one_node:
            pytest.skip(one_node.args[0])
        cloud.beside.begin()
    cloud.rows.clear()
    yield
    cloud.calm()
    if cloud.beside:
        cloud.beside.check()
        write_beside({row[0]: cloud.beside.became for row in cloud.rows})
    else:
        write_faults(cloud.rows)
