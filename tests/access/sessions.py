"""What the session of a pod reaches of the bucket, tried with its own keys on the embedded cloud."""

from collections.abc import Iterable, Mapping

from specdecode import names
from specdecode.manifests import RenderContext, Rights, session_policy

from tests.access.calls import Call, call
from tests.access.principals import Deployed
from tests.access.trial import Caller

FOREIGN = (
    "runs/other/raw/base/count.jsonl",
    "runs/other/accuracy/base.json",
    "runs/other/report.html",
    "compiled/other/model.pt",
    "compiled/other/COMPLETE.json",
    "models/other@main/model.safetensors",
    "imports/other/model.safetensors",
    "prompts/other@0.jsonl",
    "state/capacity.json",
)
"""Keys of other runs, other artifacts, other models."""


def calls(keys: Iterable[str]) -> list[Call]:
    """Reading, writing and deleting of every key."""
    found = []
    for key in keys:
        arn, place = f"{{bucket}}/{key}", {"Bucket": "{bucket_name}", "Key": key}
        found.append(call(f"read {key}", "s3:GetObject", arn, frozenset(), "get_object", **place))
        found.append(call(f"write {key}", "s3:PutObject", arn, frozenset(), "put_object", **place, Body=b""))
        found.append(call(f"delete {key}", "s3:DeleteObject", arn, frozenset(), "delete_object", **place))
    return found


def reached(caller: Caller, there: Deployed, keys: Mapping[str, str], objects: Iterable[str]) -> set[str]:
    """What of the calls on `objects` the holder of `keys` is not refused: `read …`, `write …`, `delete …`."""
    caller.become(keys)
    return {made.what for made in calls(objects) if not caller.refuses(made, there.places)}


def given(caller: Caller, there: Deployed, role: str, rights: Rights, ctx: RenderContext) -> Mapping[str, str]:
    """The session that a function of `role` gives a pod with `rights`."""
    taker = names.POD_ROLES[role][0]
    policy = session_policy(rights, ctx)
    return caller.assume_by(there.roles[taker], there.roles[role], Policy=policy, DurationSeconds=3600)
