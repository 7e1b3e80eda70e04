"""Calls that somebody must be able to make, and calls that nobody may: every principal tries every one."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.access.policies import Context
from tests.access.principals import MOUNTING, PODS

Request = tuple[str, str, dict[str, Any]]
NOBODY: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True)
class Call:
    """One call. Texts in braces are places of the deployment (`Deployed.places`)."""

    what: str
    """As docs/security.md shows it."""
    action: str
    """What IAM is asked for."""
    resource: str
    """The ARN that IAM is asked about, or `*`."""
    may: frozenset[str]
    """The principals that are allowed to; all others are refused."""
    request: Request | None = None
    """boto3 service, method and arguments, harmless where it is allowed. Without one only policies are evaluated."""
    context: Context = field(default_factory=dict)
    """Condition keys that the request carries."""

    def at(self, places: Mapping[str, str]) -> str:
        return self.resource.format_map(places)

    def keys(self, places: Mapping[str, str]) -> Context:
        return {key: _filled(value, places) for key, value in self.context.items()}

    def arguments(self, places: Mapping[str, str]) -> dict[str, Any]:
        assert self.request is not None
        return {name: _filled(value, places) for name, value in self.request[2].items()}


def _filled(value: Any, places: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return value.format_map(places)
    if isinstance(value, dict):
        return {key: _filled(item, places) for key, item in value.items()}
    return [_filled(item, places) for item in value] if isinstance(value, list) else value


def call(what: str, action: str, resource: str, may: frozenset[str], method: str = "", /, **arguments: Any) -> Call:
    """A call of the service that the action names."""
    service = SERVICES.get(action.partition(":")[0], action.partition(":")[0])
    return Call(
        what=what, action=action, resource=resource, may=may, request=(service, method, arguments) if method else None
    )


SERVICES = {"states": "stepfunctions"}
"""Prefix of an action -> boto3's name of the service, where it is another."""

MARK_READERS = frozenset({"Plan", "StageModels", "Compile", "Serve", "Advise", "Diagnose"})
ARTIFACT_MARK_READERS = MARK_READERS | {"AcquireCapacity"}
SETS_ASIDE = frozenset({"Compile", "Serve", "Diagnose"})
LEASE_READERS = frozenset(
    {
        *("AcquireCapacity", "Compile", "Serve", "Smoke", "Benchmark", "Accuracy"),
        *("ReleaseCapacity", "Watchdog", "Inspect"),
    }
)
LEASE_WRITERS = frozenset({"AcquireCapacity", "ReleaseCapacity", "Watchdog"})
RUN_STEPS = frozenset(
    {
        *("Plan", "StageModels", "AcquireCapacity", "Compile", "Serve", "Smoke", "Benchmark", "Accuracy"),
        *("StopArms", "Advise", "ReleaseCapacity", "Report", "Diagnose", "Watchdog"),
    }
)
"""Functions that keep their state below `runs/`: all but Inspect."""
TURN_WRITERS = LEASE_WRITERS
TURN_READERS = TURN_WRITERS | {"Smoke", "Benchmark", "Accuracy", "Inspect"}
ENGINES = frozenset({"compile", "serving", "monitored"})
STARTED_BY_BUNDLE = frozenset({"staging", "compile", "results", "monitored"})
MODEL_READERS = MOUNTING | {"staging", "compile"}


def _object(what: str, verb: str, key: str, may: frozenset[str], *, bucket: str = "{bucket_name}") -> Call:
    body = {"Body": b""} if verb == "put" else {}
    arn = f"arn:aws:s3:::{bucket}/{key}"
    action = {"get": "s3:GetObject", "put": "s3:PutObject", "delete": "s3:DeleteObject"}[verb]
    return call(what, action, arn, may, f"{verb}_object", Bucket=bucket, Key=key, **body)


OBJECTS = (
    call("list the bucket", "s3:ListBucket", "{bucket}", PODS | RUN_STEPS | {"Inspect"},
         "list_objects_v2", Bucket="{bucket_name}", MaxKeys=1),
    _object("read `imports/`", "get", "imports/trial/weights", frozenset({"staging"})),
    _object("read `models/`", "get", "models/trial@main/weights", MODEL_READERS),
    _object("read a mark in `models/`", "get", "models/trial@main/COMPLETE.json", MODEL_READERS | MARK_READERS),
    _object("read `compiled/`", "get", "compiled/trial/model.pt", ENGINES),
    _object("read a mark in `compiled/`", "get", "compiled/trial/COMPLETE.json", ENGINES | ARTIFACT_MARK_READERS),
    _object("read `runs/`", "get", "runs/trial/plan.json", RUN_STEPS | {"results"}),
    _object("read `asks/`", "get", "asks/trial/0/question.json", frozenset({"results"})),
    _object("read `prompts/`", "get", "prompts/trial@0.jsonl", frozenset({"Plan", "StageModels", "staging"})),
    _object("read the lease", "get", "state/capacity.json", LEASE_READERS),
    _object("read whose turn it is at servers that already run", "get", "state/endpoints.json", TURN_READERS),
    _object("read anything else in the bucket", "get", "trial", NOBODY),
    _object("read the bundle of code", "get", "{bundle}", STARTED_BY_BUNDLE, bucket="{assets}"),
    _object("read another asset of the CDK", "get", "trial.json", NOBODY, bucket="{assets}"),
    _object("write `imports/`", "put", "imports/trial/weights", NOBODY),
    _object("write `models/`", "put", "models/trial@main/trial", frozenset({"staging"})),
    _object("write `compiled/`", "put", "compiled/trial/trial", frozenset({"compile"})),
    _object("write `runs/`", "put", "runs/trial/trial", RUN_STEPS | {"results"}),
    _object("write `asks/`", "put", "asks/trial/trial", frozenset({"results"})),
    _object("write `prompts/`", "put", "prompts/trial@0.jsonl", frozenset({"staging"})),
    _object("write beside the lease", "put", "state/trial", NOBODY),
    _object("note a kind of arm that has answered", "put", "state/engines/trial.json", frozenset({"Smoke"})),
    _object("read a note of a kind of arm", "get", "state/engines/trial.json", NOBODY),
    _object("note which run a schedule's start began", "put", "state/scheduled/trial", frozenset({"Plan"})),
    _object("read which run a schedule's start began", "get", "state/scheduled/trial", frozenset({"Plan"})),
    _object("keep a damaged queue aside", "put", "state/damaged/trial", frozenset({"Watchdog"})),
    _object("read a damaged queue that was kept", "get", "state/damaged/trial", NOBODY),
    # With a version that was never there, so that it stays as it is.
    call("write the lease", "s3:PutObject", "{bucket}/state/capacity.json", LEASE_WRITERS | {"RunGuards"},
         "put_object", Bucket="{bucket_name}", Key="state/capacity.json", Body=b"", IfMatch="trial"),
    call("write whose turn it is", "s3:PutObject", "{bucket}/state/endpoints.json", TURN_WRITERS,
         "put_object", Bucket="{bucket_name}", Key="state/endpoints.json", Body=b"", IfMatch="trial"),
    _object("write anything else in the bucket", "put", "trial", NOBODY),
    _object("write the bundle of code", "put", "{bundle}", NOBODY, bucket="{assets}"),
    *(
        _object(f"delete in `{prefix}/`", "delete", f"{prefix}/trial/trial", NOBODY)
        for prefix in ("imports", "prompts", "runs", "state")
    ),
    _object("delete a question or an answer", "delete", "asks/trial/trial", frozenset({"results"})),
    _object("delete a leftover in `models/`", "delete", "models/trial/trial", frozenset({"staging"})),
    _object("delete a leftover in `compiled/`", "delete", "compiled/trial/trial", frozenset({"compile"})),
    _object("set a model aside", "delete", "models/trial/COMPLETE.json", SETS_ASIDE | {"StageModels", "staging"}),
    _object("set an artifact aside", "delete", "compiled/trial/COMPLETE.json", SETS_ASIDE | {"compile"}),
    call("delete many objects at once", "s3:DeleteObject", "{bucket}/runs/trial/trial", NOBODY,
         "delete_objects", Bucket="{bucket_name}", Delete={"Objects": [{"Key": "runs/trial/trial"}]}),
    call("list another bucket", "s3:ListBucket", "arn:aws:s3:::trial-other", NOBODY,
         "list_objects_v2", Bucket="trial-other"),
    _object("read another bucket", "get", "models/trial@main/weights", NOBODY, bucket="trial-other"),
    _object("write another bucket", "put", "runs/trial/trial", NOBODY, bucket="trial-other"),
    call("list all buckets", "s3:ListAllMyBuckets", "*", NOBODY, "list_buckets"),
    call("change the bucket's policy", "s3:PutBucketPolicy", "{bucket}", NOBODY,
         "put_bucket_policy", Bucket="{bucket_name}", Policy="not JSON"),
    call("let the bucket be public", "s3:PutBucketPublicAccessBlock", "{bucket}", NOBODY,
         "delete_public_access_block", Bucket="{bucket_name}"),
)  # fmt: skip
"""The artifact bucket, the CDK's bucket of assets, other buckets."""
