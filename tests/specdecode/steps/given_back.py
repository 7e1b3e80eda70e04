"""What the tests of giving the node back share."""

from specdecode import names
from specdecode.steps import release, watchdog

from tests.specdecode.steps.world import POOL, WAITING, World


def held(step: str = "Benchmark") -> World:
    """A world whose run holds the node and is about to do `step`."""
    world = World()
    world.run_through(until=list(WAITING)[list(WAITING).index(step) - 1])
    assert world.replicas == 1
    return world


def watch(world: World) -> watchdog.Reconciled:
    return watchdog.watch(world.given("watchdog"), world.rt)


def let_go(world: World, run_id: str = "run-1") -> str:
    return release.release(world.given(run_id), world.rt).message


# --- nodes that stay


def claim(world: World, name: str, **changes: object) -> None:
    label, status = {POOL: changes.pop("pool", names.NODEPOOL)}, changes.pop("status", {})
    world.cluster.put({"kind": "NodeClaim", "metadata": {"name": name, "labels": label, **changes}, "status": status})
