"""Karpenter's CustomResourceDefinitions and their rules: they accept our objects, and the double is as strict."""

import functools
from pathlib import Path

import pytest

from rehearsal.kubernetes import errors, resources, schema, schema_check, schema_values, validation
from tests.conftest import STACKS, synthesize
from tests.templates import Templates
from tests.upstream.conftest import Upstream
from tests.upstream.crds import Crd
from tests.upstream.objects import GONE, GOOD, Bad, Json, broken_rules, changed, one_change_each

FILES = {
    "NodePool": "karpenter.sh_nodepools",
    "NodeOverlay": "karpenter.sh_nodeoverlays",
    "EC2NodeClass": "karpenter.k8s.aws_ec2nodeclasses",
}
RESOURCES = {resource.kind: resource for resource in resources.KARPENTER}
NEVER_ALONE = {"self.size() != 0"}
"""An empty list of terms breaks the rules that begin with `!self.all` as well."""
VARIANTS: dict[str, dict[str, object]] = {
    "on demand": {},
    "reserved, on EBS": {"capacity_reservation_id": "cr-0123456789abcdef0", "node_storage": "ebs"},
    "with EFA": {"efa_interfaces": "true"},
}


def crd(upstream: Upstream, kind: str) -> Crd:
    return _read(upstream.text("karpenter", f"pkg/apis/crds/{FILES[kind]}.yaml"))


_read = functools.cache(Crd)


def refused_by_the_double(obj: Json, old: Json | None = None) -> bool:
    resource = RESOURCES[obj["kind"]]
    try:
        schema_check.check(resource, obj)
        filled = schema_values.with_defaults(schema.schema_of(resource), obj)
        validation.check(None, resource, filled, old)  # type: ignore[arg-type]
    except errors.ApiError as error:
        assert error.code in (400, 422), error
        return True
    return False


@pytest.mark.synth
@pytest.mark.parametrize("variant", VARIANTS)
def test_our_objects_are_accepted(upstream: Upstream, tmp_path: Path, variant: str) -> None:
    """Every NodePool, EC2NodeClass and NodeOverlay that the stacks apply passes upstream's schema and rules."""
    crds = {kind: crd(upstream, kind) for kind in FILES}
    assembly = synthesize(tmp_path, **VARIANTS[variant])
    templates = Templates({stack: assembly.raw(stack) for stack in STACKS})
    seen = set()
    for name, obj in templates.manifests().items():
        if obj["kind"] in crds:
            judge = crds[obj["kind"]]
            assert obj["apiVersion"] == judge.api_version
            assert not judge.verdict(obj), (name, judge.verdict(obj))
            assert not judge.verdict(obj, obj), f"{name}: cannot be applied again"
            seen.add(obj["kind"])
    assert seen == set(FILES) - ({"NodeOverlay"} if VARIANTS[variant] else set())


@pytest.mark.parametrize("kind", FILES)
def test_the_good_objects_are_good(upstream: Upstream, kind: str) -> None:
    """The objects that the cases below change are accepted by upstream and by the double."""
    judge = crd(upstream, kind)
    assert not judge.verdict(GOOD[kind]), judge.verdict(GOOD[kind])
    assert not judge.verdict(GOOD[kind], GOOD[kind])
    assert not refused_by_the_double(GOOD[kind])


@pytest.mark.parametrize("bad", broken_rules(), ids=lambda bad: bad.id)
def test_what_a_rule_refuses_the_double_refuses(upstream: Upstream, bad: Bad) -> None:
    """What breaks a rule across fields is refused by upstream and by the double."""
    old = GOOD[bad.kind] if bad.update else None
    assert crd(upstream, bad.kind).verdict(bad.made(), old), "upstream accepts it: the case proves nothing"
    assert refused_by_the_double(bad.made(), old)


@pytest.mark.parametrize("kind", FILES)
def test_every_rule_is_broken_by_a_case(upstream: Upstream, kind: str) -> None:
    """Every CEL rule of the CRD's spec is broken by a case that breaks no other: none hides behind another."""
    judge = crd(upstream, kind)
    alone = set()
    for bad in broken_rules():
        if bad.kind == kind:
            rules = judge.verdict(bad.made(), GOOD[kind] if bad.update else None).rules
            alone |= set(rules) if len(set(rules)) == 1 else set()
    assert judge.rules() - alone == NEVER_ALONE & judge.rules()


@pytest.mark.parametrize("kind", FILES)
def test_the_double_is_at_least_as_strict(upstream: Upstream, kind: str) -> None:
    """Hundreds of objects with one change: none that upstream refuses passes the double."""
    judge = crd(upstream, kind)
    changes = list(one_change_each(GOOD[kind]))
    made = [(path, value, changed(GOOD[kind], path, value)) for path, value in changes]
    refused = [(path, value, obj) for path, value, obj in made if judge.verdict(obj)]
    assert len(refused) > 100
    lax = [
        (".".join(map(str, path)), "gone" if value is GONE else value)
        for path, value, obj in refused
        if not refused_by_the_double(obj)
    ]
    assert lax == []
