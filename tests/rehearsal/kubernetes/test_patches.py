"""Patches and field ownership as functions."""

from typing import Any

from rehearsal.kubernetes import merge_patches, ownership, schema
from rehearsal.kubernetes import resources as r
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
