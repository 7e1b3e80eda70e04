"""What the double computes without a cluster: patches, field ownership, the CEL of device selectors, quantities."""

from decimal import Decimal
from typing import Any

import pytest
from specdecode.experiment.claims import claim_template
from specdecode.experiment.shapes import TRN2

from constructs_lib.settings.fields import Settings
from constructs_lib.settings.neuron_amis import ENGINE_GENERATIONS, NEURON_AMIS
from rehearsal.kubernetes import cel, merge_patches, ownership, quantity, schema
from rehearsal.kubernetes import resources as r
from rehearsal.kubernetes.controllers.slices import device
from rehearsal.kubernetes.karpenter import names
from rehearsal.kubernetes.managed_fields import Owner, read_owners, show

NODE = schema.schema_of(r.DEPLOYMENTS)


def deployment(*containers: Any, replicas: int | None = None) -> Any:
    spec: Any = {"template": {"spec": {"containers": list(containers)}}}
    if replicas is not None:
        spec["replicas"] = replicas
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec}


def containers(obj: Any) -> Any:
    return obj["spec"]["template"]["spec"]["containers"]


A, B = {"name": "a", "image": "a:1"}, {"name": "b", "image": "b:1"}


def merged(live: Any, change: Any) -> Any:
    return containers(merge_patches.strategic_merge(NODE, live, change))


def test_strategic_merge_deletes_replaces_and_orders() -> None:
    both = deployment(A, B)
    assert merged(both, deployment({"name": "a", "$patch": "delete"})) == [B]
    assert merged(both, deployment({"$patch": "replace"}, B)) == [B]
    change = deployment(A)
    change["spec"]["template"]["spec"]["$setElementOrder/containers"] = [{"name": "b"}, {"name": "a"}]
    assert merged(both, change) == [B, A]
    args = {"name": "a", "args": ["x"]}
    assert merged(deployment({**A, "args": ["1", "2"]}), deployment(args))[0]["args"] == ["x"]


def owner(manager: str, operation: str = "Apply", subresource: str = "") -> Owner:
    return Owner(
        manager=manager, operation=operation, api_version="apps/v1", subresource=subresource, time="", paths=frozenset()
    )


def apply(live: Any, body: Any, manager: str, *, force: bool = False) -> tuple[Any, list[str]]:
    merged, conflicts = ownership.apply(NODE, live, body, owner(manager), complete=lambda obj: None, force=force)
    return merged, [f"{other}{show(path)}" for other, path in conflicts]


def test_what_an_apply_leaves_out_goes_unless_another_has_it() -> None:
    live, _ = apply({"metadata": {}}, deployment(A, B, replicas=1), "one")
    live, _ = apply(live, deployment(B), "two")
    live, conflicts = apply(live, deployment(A), "one")
    assert not conflicts and "replicas" not in live["spec"]
    assert sorted(c["name"] for c in containers(live)) == ["a", "b"], "`two` owns b as well"
    live, _ = apply(live, deployment(A), "two")
    assert [c["name"] for c in containers(live)] == ["a"]


def test_an_update_takes_what_it_changes() -> None:
    live, _ = apply({"metadata": {}}, deployment(A, replicas=0), "cdk")
    scaled = {**live, "spec": {**live["spec"], "replicas": 1}}
    owners = ownership.record_update(NODE, live, scaled, owner("pipeline", "Update", "scale"))
    by_manager = {o.manager: {show(path) for path in o.paths} for o in owners}
    assert by_manager["pipeline"] == {".spec.replicas"} and ".spec.replicas" not in by_manager["cdk"]
    assert {o.manager for o in read_owners(live)} == {"cdk"}


DRIVER = "neuron.aws.com"
ATTRIBUTES = {
    "instanceType": {"string": "trn2.48xlarge"},
    "deviceId": {"int": 3},
    "neuronDriverVersion": {"string": "2.25.4.0"},
    "draDriverVersion": {"version": "1.2.0"},
    "resource.aws.com/devicegroup8_id": {"string": "8-0"},
}
N = "device.attributes['neuron.aws.com']"

HOLDS = [
    (f"{N}.instanceType == 'trn2.48xlarge'", True),
    (f'{N}.instanceType != "trn2.48xlarge"', False),
    ("device.driver == 'neuron.aws.com'", True),
    ("device.attributes['resource.aws.com'].devicegroup8_id == '8-0'", True),
    (f"{N}.deviceId < 4 && {N}.deviceId >= 3", True),
    (f"{N}.deviceId in [1, 2] || {N}.deviceId == 3", True),
    (f"!({N}.deviceId == 3)", False),
    (f"{N}.draDriverVersion.isLessThan(semver('1.3.0'))", True),
    (f"{N}.draDriverVersion.compareTo(semver('1.2.0')) == 0", True),
    (f"{N}.draDriverVersion.startsWith('1.')", False),
    (f"{N}.neuronDriverVersion == '2.25.4.0'", True),
    (f"{N}.neuronDriverVersion.isLessThan(semver('2.28.0'))", False),
    (f"{N}.instanceType.startsWith('trn2.') && {N}.instanceType.matches('^trn2')", True),
    (f"{N}.missing == 1", False),
    (f"{N}.deviceId == 3 ? {N}.deviceId : false", False),
    (f"{N}.deviceId == '3'", False),
]


@pytest.mark.parametrize(("expression", "expected"), HOLDS)
def test_expressions(expression: str, expected: bool) -> None:
    cel.check(expression)
    assert cel.holds(expression, DRIVER, ATTRIBUTES) is expected


@pytest.mark.parametrize(
    "expression",
    ["device.capacity['a'].b > 1", "x == 1", "1 +", "device.driver.split(':')", "size(device)", "a ++ b", "(true"],
)
def test_what_is_not_known_is_named(expression: str) -> None:
    with pytest.raises(cel.Unsupported, match="not supported"):
        cel.check(expression)


def test_the_driver_guard_matches_the_default_amis_driver_and_no_other() -> None:
    """The attribute's type is the driver's (aws-neuron-sdk, deploy/eks/dra.rst): text, compared as text."""
    attributes = device(0, "trn2.48xlarge")["attributes"]
    own = NEURON_AMIS[ENGINE_GENERATIONS[Settings().engine_generation].ami].driver

    def matches(version: str) -> bool:
        template = claim_template(8, shape=TRN2, driver=version, constraint="devicegroup")
        selectors = template["spec"]["spec"]["devices"]["requests"][0]["exactly"]["selectors"]
        expressions = [selector["cel"]["expression"] for selector in selectors]
        assert len(expressions) == 2
        for expression in expressions:
            cel.check(expression)
        return all(cel.holds(expression, DRIVER, attributes) for expression in expressions)

    drivers = {ami.driver for ami in NEURON_AMIS.values()}
    assert {driver for driver in drivers if matches(".".join(driver.split(".")[:2]))} == {own}


@pytest.mark.parametrize(
    ("text", "amount"),
    {"500m": "0.5", "1": "1", "1Gi": 2**30, "1.5G": "1.5e9", "1e3": "1000", "100u": "1e-4", 2: 2, "Gi": 0}.items(),
)
def test_parse(text: str | int, amount: str | int) -> None:
    assert quantity.parse(text) == Decimal(amount)


def test_durations() -> None:
    assert names.seconds("1h30m") == 5400 and names.seconds("10m") == 600 and names.seconds("Never") == float("inf")
