"""The checks before a deployment, before a run, and at the start of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from specdecode import names, s3_keys
from specdecode.cli.preflight import (
    alerts,
    builds,
    capacity,
    cluster,
    kubectl,
    leftovers,
    models,
    network,
    quotas,
    registry,
)
from specdecode.cli.preflight.check import Ask, Check, looked
from specdecode.cli.runs_deployment import Deployment
from specdecode.experiment import Experiment, load_engine
from specdecode.experiment.model import CompileOn, ModelRef
from specdecode.runs.lease import Lease
from specdecode.runs.lease_store import LeaseStore

TOPIC = "AlertsTopicArn"


def everything(
    ask: Ask, deployment: Deployment, experiment: Experiment, *, http: registry.Http, say: Callable[[str], Any]
) -> Iterator[Check]:
    """All checks, in order. `say` gets the subject of each."""
    say("alerts")
    yield from looked("alerts", lambda: alerts.alerts(ask, _topic(ask, deployment)))
    if not experiment.holds_node:
        yield from looked("endpoints", lambda: [capacity.turn(_lease(ask, deployment, s3_keys.ENDPOINTS_KEY))])
    else:
        yield from _of_a_node(ask, deployment, experiment, http=http, say=say)
    if not ask.deployed:
        for name, look in (("network quotas", _network), ("Lambda concurrency", quotas.functions)):
            say(name)
            yield from looked(name, partial(look, ask))
        say("leftovers of an earlier deployment")
        yield from leftovers.leftovers(ask)


def _network(ask: Ask) -> Iterator[Check]:
    """The quotas of the network. Not if an unfinished deployment already has its network: it would be counted as
    somebody else's.
    """
    if ask.facts.vpc:
        yield Check("network quotas", "ok", f"nothing is made in {ask.facts.vpc}")
    elif leftovers.owned(ask):
        yield Check("network quotas", "ok", f"{leftovers.STACKS[1]} stands and has its network")
    else:
        yield from quotas.network(ask)


def before_a_run(ask: Ask, deployment: Deployment, experiment: Experiment) -> Iterator[Check]:
    """The checks that take a second: alerts, the reservation and its window, models that must be uploaded."""
    yield from looked("alerts", lambda: alerts.alerts(ask, _topic(ask, deployment)))
    if not experiment.holds_node:
        return
    yield from capacity.shape(ask.facts, experiment.shape)
    if ask.facts.reservation is not None and experiment.shape.has_devices:
        yield from looked("reservation", lambda: capacity.reservation(ask, _lease(ask, deployment)))
    absent = []
    for model in models.of(experiment):
        found = looked(f"model {model.id}", partial(_stored, model, deployment))
        yield from found
        absent += [model] if not found else []
    if any(model.gated for model in absent):
        yield from looked("Hugging Face token", lambda: models.token(ask))


def _of_a_node(
    ask: Ask, deployment: Deployment, experiment: Experiment, *, http: registry.Http, say: Callable[[str], Any]
) -> Iterator[Check]:
    if ask.deployed:
        yield from looked(
            "node", lambda: [capacity.queue(_lease(ask, deployment), experiment.shape, ask.facts, ask.now)]
        )
    say("capacity")
    yield from capacity.shape(ask.facts, experiment.shape)
    yield from capacity.nodes(ask.facts)
    yield from looked("network", lambda: network.own(ask, experiment.shape))
    if ask.facts.existing:
        say("the cluster")
        yield from looked("cluster", lambda: cluster.of_eks(ask))
        yield from looked("node", lambda: cluster.inside(ask, experiment.shape, ask_kubectl=kubectl.kubectl))
    if ask.facts.describes_nodes:
        yield from _of_our_nodes(ask, deployment, experiment, say=say)
    say("the engine's image")
    engine = load_engine(experiment.images_of)
    yield from looked("image", lambda: [c for c, _ in registry.images(engine, ask=http, client=ask.client)])
    wanted = models.of(experiment)
    for model in wanted:
        say(f"model {model.id}")
        found = looked(f"model {model.id}", partial(_stored, model, deployment)) if ask.deployed else []
        if not found and not model.import_prefix:
            found = [models.on_the_hub(model, lambda url: http("HEAD", url, {}).status)]
        yield from found
    if any(model.gated for model in wanted):
        yield from looked("Hugging Face token", lambda: models.token(ask))


def _of_our_nodes(
    ask: Ask, deployment: Deployment, experiment: Experiment, *, say: Callable[[str], Any]
) -> Iterator[Check]:
    """Checks of the nodes that runs hold, and of the parts of a cluster of ours."""
    yield from looked("zones", lambda: capacity.zones(ask, experiment.shape))
    of_reservation = ask.facts.reservation is not None and experiment.shape.has_devices
    lease = _lease(ask, deployment) if ask.deployed and of_reservation else None
    if of_reservation:
        yield from looked("reservation", lambda: capacity.reservation(ask, lease))
    say("quotas of vCPUs")
    ahead = len(experiment.variants) if experiment.compile.on is CompileOn.CPU else 0
    yield from looked("vCPUs", lambda: quotas.vcpus(ask, experiment.shape, compiles=ahead))
    say("add-ons and AMIs")
    if ask.facts.existing is None:
        yield from looked("add-ons", lambda: builds.addons(ask))
    yield from looked("AMIs", lambda: builds.amis(ask))


def _stored(model: ModelRef, deployment: Deployment) -> list[Check]:
    found = models.stored(model, deployment.store)
    return [] if found is None else [found]


def _lease(ask: Ask, deployment: Deployment, key: str = s3_keys.CAPACITY_KEY) -> Lease:
    store = deployment.store
    slots = names.held_pools(ask.facts.nodes)
    return LeaseStore(s3=store.s3, bucket=store.bucket, key=key, slots=slots, now=lambda: ask.now).read()


def _topic(ask: Ask, deployment: Deployment) -> str | None:
    return deployment.outputs.get(TOPIC) if ask.deployed else None
