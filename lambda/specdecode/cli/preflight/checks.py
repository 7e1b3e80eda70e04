"""Which checks are made before a deployment, before a run, and at the start of a run, and in which order."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

import typer
from rich.console import Console
from rich.table import Table

from specdecode import names, s3_keys
from specdecode.assets import assets_dir
from specdecode.cli.output import EXIT_ENVIRONMENT, complain, stop_with
from specdecode.cli.preflight import account, capacity, cluster, network, pods, pulled
from specdecode.cli.preflight.check import Ask, Check, tried
from specdecode.cli.preflight.cluster_nodes import kubectl
from specdecode.cli.runs_deployment import Deployment
from specdecode.escape import line
from specdecode.experiment import Experiment, engine_of
from specdecode.experiment.deployment_facts import DeploymentFacts, ExistingCluster
from specdecode.experiment.model import CompileOn, ServedExperiment
from specdecode.experiment.variants import ModelRef
from specdecode.runs.lease import Lease, LeaseStore

Named = tuple[str, Callable[[], Iterable[Check]]]
"""What is looked at, and what finds it out."""


def checked(deployment: Deployment, experiment: Experiment, settings: list[str], *, quiet: bool) -> list[Check]:
    """Credentials first, then the stack: without them the others could only repeat that. Settings need neither."""
    accounts: list[str] = []
    deployed: list[DeploymentFacts] = []
    found = tried("credentials", lambda: account.credentials(deployment.client, accounts))
    if not fails(found):
        found += tried("stack", lambda: _stack(deployment, deployed))
    if fails(found) and not settings:
        return found
    try:
        account.refuse_contradictions()
        facts = deployed[0] if deployed and not settings else account.facts_of_checkout(settings)
    except typer.Exit:
        _complain_of(found)
        raise
    if fails(found):
        return [*found, Check("settings", "ok", f"{', '.join(settings)} can be deployed")]
    checks = Checks(_ask(deployment, facts, deployed=bool(deployed)), deployment, experiment)
    found += account.place(facts, account=accounts[0] if accounts else None, region=checks.ask.region)
    console = Console(stderr=True)
    with console.status("") if console.is_terminal and not quiet else nullcontext() as status:
        for name, check in checks.everything():
            if status is not None:
                status.update(name)
            found += tried(name, check)
    return found


def _stack(deployment: Deployment, deployed: list[DeploymentFacts]) -> Iterator[Check]:
    """Checks whether there is a stack. Its facts are put into `deployed`."""
    if outputs := deployment.found_outputs:
        deployed.append(account.facts_of_stack(outputs, stack=deployment.stack))
    yield Check("stack", "ok", f"{deployment.stack} is {'deployed' if outputs else 'not deployed yet'}")


def refuse_a_run_that_would_fail(deployment: Deployment, experiment: Experiment) -> None:
    """Checks before a run is started. Ends the command with 3 and every problem if the run would fail."""
    account.refuse_contradictions()
    facts = account.facts_of_stack(deployment.outputs, stack=deployment.stack)
    checks = Checks(_ask(deployment, facts, deployed=True), deployment, experiment).before_a_run()
    found = [each for name, check in checks for each in tried(name, check)]
    _complain_of(found)
    if fails(found):
        raise stop_with("nothing was started (`specdecode preflight` checks the rest too)", EXIT_ENVIRONMENT)


def fails(found: list[Check]) -> bool:
    """Whether a deployment or a run would fail."""
    return any(check.verdict == "fail" for check in found)


def _complain_of(found: list[Check]) -> None:
    for check in found:
        if check.verdict != "ok":
            complain(f"{check.verdict}: {check.name}: {check.detail}\n      {check.fix}")


def table(found: list[Check]) -> Table:
    """A row for each check. What to do is below what was found."""
    rows = Table(box=None, pad_edge=False, show_header=False)
    for style in ("bold", "", ""):
        rows.add_column(style=style, overflow="fold")
    for check in found:
        rows.add_row(check.verdict, line(check.name), line(check.detail))
        if check.verdict != "ok":
            rows.add_row("", "", f"-> {line(check.fix)}")
    return rows


def pin(experiment: Experiment, deployment: Deployment) -> None:
    """Write the digests, and say what follows from it."""
    engine = engine_of(experiment)
    fields = {
        field: value
        for _, fields in pulled.images(engine, ask=pulled.http, client=deployment.client)
        for field, value in fields.items()
    }
    file = assets_dir() / "engines" / f"{engine.name}.yaml"
    written = pulled.pin(file, fields)
    if written:
        complain(f"wrote {', '.join(written)} into {file}; deploy again, and the next run compiles anew")
    else:
        complain(f"{file}: nothing to write")


def _ask(deployment: Deployment, facts: DeploymentFacts, *, deployed: bool) -> Ask:
    given = {"client": deployment.client, "region": deployment.session.region_name, "now": datetime.now(UTC)}
    return Ask(facts=facts, deployed=deployed, **given)


@dataclass(frozen=True)
class Checks:
    """What is looked at for one experiment on one deployment. Each is made before the next is asked for."""

    ask: Ask
    stack: Deployment
    experiment: Experiment

    def everything(self) -> Iterator[Named]:
        ask = self.ask
        yield "alerts", self._alerts
        if self.experiment.holds_node:
            yield from self._of_a_node()
        else:
            yield "endpoints", lambda: [capacity.endpoints(self._lease(s3_keys.ENDPOINTS_KEY))]
        if not ask.deployed:
            yield "network quotas", self._quotas_of_the_network
            yield "Lambda concurrency", lambda: capacity.functions(ask)
            yield "leftovers of an earlier deployment", lambda: account.leftovers(ask)

    def before_a_run(self) -> Iterator[Named]:
        """What takes a second: alerts, the reservation and its window, models that must be uploaded."""
        yield "alerts", self._alerts
        if self.experiment.holds_node:
            yield "node type", lambda: capacity.shape(self.ask.facts, self.experiment.shape)
            if self._is_reserved:
                yield "reservation", lambda: capacity.reservation(self.ask, self._lease())
            yield from self._models(on_the_hub=False)

    def _of_a_node(self) -> Iterator[Named]:
        ask, wanted, facts = self.ask, self.experiment.shape, self.ask.facts
        if ask.deployed:
            yield "node", lambda: [capacity.queue(self._lease(), wanted, facts, ask.now)]
        yield "node type", lambda: capacity.shape(facts, wanted)
        yield "network", lambda: network.own(ask, wanted)
        if facts.existing:
            yield "cluster", lambda: cluster.of_eks(ask)
            yield "node", lambda: cluster.inside(ask, wanted, ask_kubectl=kubectl)
            yield "room", lambda: self._room(facts.existing)
        if facts.describes_nodes:
            yield "zones", lambda: capacity.zones(ask, wanted)
            if self._is_reserved:
                lease = self._lease() if ask.deployed else None
                yield "reservation", lambda: capacity.reservation(ask, lease)
            ahead = len(self.experiment.variants) if self.experiment.compile.on is CompileOn.CPU else 0
            yield "vCPUs", lambda: capacity.vcpus(ask, wanted, compiles=ahead)
            if facts.existing is None:
                yield "Kubernetes", lambda: account.support(facts, ask.now.date())
                yield "add-ons", lambda: account.addons(ask)
            yield "AMIs", lambda: account.amis(ask)
        images = pulled.images(engine_of(self.experiment), ask=pulled.http, client=ask.client)
        yield "image", lambda: [found for found, _ in images]
        yield from self._models(on_the_hub=True)

    def _models(self, *, on_the_hub: bool) -> Iterator[Named]:
        there: list[ModelRef] = []

        def check(model: ModelRef) -> Iterator[Check]:
            if self.ask.deployed and (found := pulled.stored(model, self.stack.store)):
                there.append(model)
                yield found
            elif on_the_hub and not model.import_prefix:
                yield pulled.on_the_hub(model, pulled.http)

        for model in self.experiment.staged:
            yield f"model {model.id}", partial(check, model)
        if any(model.gated and model not in there for model in self.experiment.staged):
            yield "Hugging Face token", lambda: [pulled.token(self.ask)]

    def _room(self, existing: ExistingCluster | None) -> Iterator[Check]:
        """Whether its pods find a place (on nodes that are not of our pools), are admitted and find names."""
        experiment = self.experiment
        if existing is None or not isinstance(experiment, ServedExperiment):
            return
        if existing.node_group:
            yield from pods.of_group(self.ask, experiment, existing.node_group)
        if not cluster.is_context(self.ask, kubectl):
            return
        if not (existing.node_group or existing.node_role):
            yield from pods.of_nodes(self.ask, experiment, ask_kubectl=kubectl)
        yield from pods.of_pods(self.ask, experiment, ask_kubectl=kubectl)
        yield pods.of_dns(kubectl)

    def _alerts(self) -> Iterator[Check]:
        return account.alerts(self.ask, self.stack.outputs.get("AlertsTopicArn") if self.ask.deployed else None)

    def _quotas_of_the_network(self) -> Iterator[Check]:
        """None if an unfinished deployment already has its network: it would be counted as somebody else's."""
        if self.ask.facts.vpc:
            yield Check("network quotas", "ok", f"nothing is made in {self.ask.facts.vpc}")
        elif account.owned(self.ask):
            yield Check("network quotas", "ok", f"{names.CLUSTER_STACK} stands and has its network")
        else:
            yield from capacity.network_quotas(self.ask)

    @property
    def _is_reserved(self) -> bool:
        return self.ask.facts.reservation is not None and self.experiment.shape.has_devices

    def _lease(self, key: str = s3_keys.CAPACITY_KEY) -> Lease:
        store, slots = self.stack.store, names.held_pools(self.ask.facts.nodes)
        return LeaseStore(s3=store.s3, bucket=store.bucket, key=key, slots=slots, now=lambda: self.ask.now).read()
