"""The options of a deletion: propagation, grace, preconditions."""

import time

from rehearsal.kubernetes import errors
from rehearsal.kubernetes import resources as r
from rehearsal.kubernetes.objects import Json, dig, name_of, uid_of
from rehearsal.kubernetes.resources import Resource


def propagation_finalizer(resource: Resource, options: Json) -> str:
    """The finalizer of the propagation policy, or "". A Job of batch/v1 orphans its pods by default."""
    policy = options.get("propagationPolicy")
    if policy is None and "orphanDependents" in options:
        policy = "Orphan" if options["orphanDependents"] else "Background"
    if policy is None:
        policy = "Orphan" if resource is r.JOBS else "Background"
    if policy not in ("Orphan", "Foreground", "Background"):
        message = f'invalid propagationPolicy "{policy}": supported values: "Orphan", "Background", "Foreground"'
        raise errors.bad_request(message)
    return {"Orphan": "orphan", "Foreground": "foregroundDeletion"}.get(policy, "")


def grace_period(resource: Resource, obj: Json, options: Json) -> int:
    """Seconds until the object is gone. They are 0 for all but a pod that may be running."""
    if resource is not r.PODS:
        return 0
    if not dig(obj, "spec", "nodeName") or dig(obj, "status", "phase") in ("Succeeded", "Failed"):
        return 0
    asked = options.get("gracePeriodSeconds")
    grace = obj["spec"].get("terminationGracePeriodSeconds", 30) if asked is None else asked
    return int(grace)


def check_preconditions(resource: Resource, obj: Json, options: Json) -> None:
    """Raise 409 if the object has another uid or version than the client demands."""
    for key, actual in (("uid", uid_of(obj)), ("resourceVersion", obj["metadata"]["resourceVersion"])):
        wanted = dig(options, "preconditions", key)
        if wanted is not None and wanted != actual:
            why = f"Precondition failed: {key} in precondition: {wanted}, {key} in object meta: {actual}"
            raise errors.conflict(resource, name_of(obj), why)


def later(seconds: int) -> str:
    """The time in `seconds` from now, as Kubernetes writes it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + seconds))
