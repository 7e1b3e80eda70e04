"""Field ownership: the fields that an update takes, and the conflicts, merges and removals of a server-side apply."""

from collections.abc import Callable
from dataclasses import replace

from rehearsal.kubernetes import schema_values
from rehearsal.kubernetes.managed_fields import (
    ITSELF,
    Owner,
    Path,
    merge,
    owned_part,
    paths_of,
    read_owners,
    remove_at,
    value_at,
    without_itself,
    write_owners,
)
from rehearsal.kubernetes.objects import Json, now


def record_update(node: Json, old: Json | None, new: Json, owner: Owner) -> list[Owner]:
    """Owners after a write other than an apply: the writer owns the fields that it changed; removed fields have no
    owner.
    """
    after = owned_part(new)
    present = paths_of(node, after) if after else set()
    before = owned_part(old) if old else {}
    changed = {
        path for path in present if value_at(before, without_itself(path)) != value_at(after, without_itself(path))
    }
    changed = {path for path in changed if path[-1] != ITSELF or value_at(before, path[:-1]) is None}
    owners = [replace(o, paths=(o.paths & present) - changed) for o in (read_owners(old) if old else [])]
    return _add(owners, replace(owner, paths=frozenset(changed)), keep=True)


def _add(owners: list[Owner], new: Owner, *, keep: bool) -> list[Owner]:
    same = next((o for o in owners if o.same_as(new)), None)
    if same is None:
        return [*owners, replace(new, time=now())] if new.paths else owners
    paths = same.paths | new.paths if keep else new.paths
    time = same.time if paths == same.paths else now()
    return [replace(o, paths=paths, time=time) if o is same else o for o in owners]


def apply(
    node: Json, live: Json, applied: Json, owner: Owner, *, complete: Callable[[Json], None], force: bool
) -> tuple[Json, list[tuple[str, Path]]]:
    """(the merged object with its managedFields, conflicts as (manager, path)). With `force` nothing conflicts.
    `complete` fills in defaults, so a field that the applied object leaves out does not conflict with its default.
    """
    wanted = owned_part(applied)
    paths = paths_of(node, wanted) if wanted else set()
    owners = read_owners(live)
    merged = schema_values.without_nulls(node, merge(node, live, wanted))
    complete(merged)
    conflicts = [
        (other.manager, path)
        for other in owners
        if not other.same_as(owner)
        for path in sorted(other.paths & paths, key=repr)
        if path[-1] != ITSELF and value_at(live, path) != value_at(merged, path)
    ]
    if conflicts and not force:
        return live, conflicts
    taken = {path for _, path in conflicts}
    owners = [o if o.same_as(owner) else replace(o, paths=o.paths - taken) for o in owners]
    earlier = next((o.paths for o in owners if o.same_as(owner)), frozenset())
    others = {path for o in owners if not o.same_as(owner) for path in o.paths}
    for path in sorted(earlier - paths, key=lambda path: (path[-1] != ITSELF, len(path))):
        kept = path in others or (path[-1] == ITSELF and any(o[: len(path) - 1] == path[:-1] for o in others))
        if not kept:
            remove_at(merged, path)
    owners = _add(owners, replace(owner, paths=frozenset(paths)), keep=False)
    merged["metadata"] = {**merged["metadata"], "managedFields": write_owners(owners)}
    return merged, []
