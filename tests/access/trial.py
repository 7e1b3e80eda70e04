"""Every call tried on the embedded cloud, with the credentials of every principal, as it gets them there."""

import base64
import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import botocore.session
from botocore import UNSIGNED
from botocore.config import Config
from botocore.exceptions import ClientError
from specdecode import names

from rehearsal.servers import ISSUER, Services
from rehearsal.tools import ACCOUNT
from tests.access.calls import Call
from tests.access.calls_control import CALLS
from tests.access.policies import Statement
from tests.access.principals import OPEN_ROLE, ROLES, Deployed, deployed
from tests.templates import Templates

REFUSALS = {"AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "AuthorizationError"}
"""Codes by which services say that IAM refuses."""
AUDIENCE = "sts.amazonaws.com"
ACCOUNTS = {
    **{name: f"{names.NAMESPACE}:{account}" for name, account in names.SERVICE_ACCOUNTS.items()},
    "Karpenter": "kube-system:karpenter",
}
"""Principal that is a pod -> its namespace and service account."""
SCRATCH = "specdecode-trial"
"""A role that is given one statement after the other."""
ARNS = {
    "AWS::IAM::Role": "arn:aws:iam::{account}:role/{id}",
    "AWS::Lambda::Function": "arn:aws:lambda:{region}:{account}:function:{id}",
    "AWS::Logs::LogGroup": "arn:aws:logs:{region}:{account}:log-group:{id}",
    "AWS::S3::Bucket": "arn:aws:s3:::{id}",
    "AWS::SQS::Queue": "arn:aws:sqs:{region}:{account}:{id}",
}
"""Type -> ARN from the physical id, where that is not the ARN itself."""


class Caller:
    """Clients of the embedded AWS whose credentials are changed between calls: a client costs more than a call."""

    def __init__(self, services: Services, *, region: str) -> None:
        self._endpoint, self._region = services.endpoint, region
        self._session = botocore.session.Session()
        self._session.set_credentials("test", "test")
        self._clients: dict[str, Any] = {}

    def client(self, service: str, **config: Any) -> Any:
        return self._session.create_client(
            service,
            endpoint_url=self._endpoint,
            region_name=self._region,
            config=Config(proxies={}, retries={"total_max_attempts": 1}, s3={"addressing_style": "path"}, **config),
        )

    def become(self, keys: Mapping[str, str] | None) -> None:
        """Sign with `keys` (as STS gives them), or as the account's administrator."""
        credentials = self._session.get_credentials()
        credentials.access_key = keys["AccessKeyId"] if keys else "test"
        credentials.secret_key = keys["SecretAccessKey"] if keys else "test"
        credentials.token = keys["SessionToken"] if keys else None

    def administrator(self, service: str) -> Any:
        """A client with the administrator's keys, whoever is signing now."""
        self.become(None)
        return self._client(service)

    def keys_of(self, principal: str, roles: Mapping[str, str]) -> Mapping[str, str]:
        """Keys of a principal's role: by a token, or by a function that may take it, where it is a pod's."""
        if principal in ACCOUNTS:
            return self.assume_as_pod(roles[principal], token(ACCOUNTS[principal]))
        if principal in names.POD_ROLES:
            return self.assume_by(roles[names.POD_ROLES[principal][0]], roles[principal])
        return self.assume(roles[principal])

    def assume_by(self, function: str, role: str, **narrowed: Any) -> Mapping[str, str]:
        """Keys of `role` for one who has the role `function`. Raises ClientError."""
        self.become(self.assume(function))
        answer = self._client("sts").assume_role(RoleArn=role, RoleSessionName="trial", **narrowed)
        return dict(answer["Credentials"])

    def assume(self, role: str) -> Mapping[str, str]:
        """Keys of a role that a service assumes, for which the emulator's administrator counts.

        It is no service of this account, though, which a trust may demand (confused deputy): that is taken off first.
        tests/stacks/test_deployable.py holds the condition.
        """
        iam, name = self.administrator("iam"), role.rpartition("/")[2]
        trust = iam.get_role(RoleName=name)["Role"]["AssumeRolePolicyDocument"]
        conditional = [
            one for one in trust["Statement"] if "Service" in one["Principal"] and one.pop("Condition", None)
        ]
        if conditional:
            iam.update_assume_role_policy(RoleName=name, PolicyDocument=json.dumps(trust))
        return dict(self.administrator("sts").assume_role(RoleArn=role, RoleSessionName="trial")["Credentials"])

    def assume_as_pod(self, role: str, token: str) -> Mapping[str, str]:
        """Keys of a pod's role, as its SDK gets them. Raises ClientError."""
        answer = self.client("sts", signature_version=UNSIGNED).assume_role_with_web_identity(
            RoleArn=role, RoleSessionName="trial", WebIdentityToken=token
        )
        return dict(answer["Credentials"])

    def refuses(self, call: Call, places: Mapping[str, str]) -> bool:
        """Whether IAM refuses the call. An answer that the call is wrong otherwise comes after IAM allowed it."""
        assert call.request is not None
        service, method, _ = call.request
        try:
            getattr(self._client(service), method)(**call.arguments(places))
        except ClientError as error:
            return error.response["Error"]["Code"] in REFUSALS
        return False

    def _client(self, service: str) -> Any:
        if service not in self._clients:
            self._clients[service] = self.client(service)
        return self._clients[service]


def token(account: str, *, issuer: str = ISSUER, audience: str | None = AUDIENCE, lifetime_s: int = 600) -> str:
    """A pod's token, `account` being namespace and name. Its signature is not one: the emulator does not check it."""

    def part(data: Mapping[str, Any]) -> str:
        return base64.urlsafe_b64encode(json.dumps(data).encode()).rstrip(b"=").decode()

    now = int(time.time())
    claims: dict[str, Any] = {"iss": issuer, "sub": f"system:serviceaccount:{account}", "exp": now + lifetime_s}
    claims |= {"iat": now - 60, "nbf": now - 60, **({"aud": [audience]} if audience else {})}
    return f"{part({'alg': 'RS256', 'kid': 'trial'})}.{part(claims)}.c2lnbmF0dXJl"


STRANGERS: dict[str, dict[str, Any]] = {
    "another account of the namespace": {"account": f"{names.NAMESPACE}:default"},
    "the account's name in another namespace": {"account": "default:{name}"},
    "an account whose name begins the same": {"account": f"{names.NAMESPACE}:{{name}}-2"},
    "a pattern": {"account": f"{names.NAMESPACE}:*"},
    "another cluster": {"issuer": ISSUER + "2"},
    "a token for another audience": {"audience": "kubernetes.default.svc"},
    "a token for no audience": {"audience": None},
}
"""Who is not the pod -> what of its token is different; `{name}` is the account's name."""


def strangers_let_in(services: Services, there: Deployed) -> set[str]:
    """Those of STRANGERS that get a pod's role, and pods that get another's or not their own."""
    caller, wrong = Caller(services, region=there.places["region"]), set()

    def gets(role: str, account: str, **differences: Any) -> bool:
        try:
            caller.assume_as_pod(role, token(account, **differences))
        except ClientError as error:
            assert error.response["Error"]["Code"] == "AccessDenied"
            return False
        return True

    for principal, account in ACCOUNTS.items():
        role, name = there.roles[principal], account.partition(":")[2]
        wrong |= {
            f"{stranger} as {principal}"
            for stranger, changes in STRANGERS.items()
            if gets(role, **{"account": account, **changes, **_named(changes, name)})
        }
        wrong |= {
            f"{other} as {principal}"
            for other, its_account in ACCOUNTS.items()
            if gets(role, its_account) != (other == principal)
        }
    return wrong


def _named(changes: Mapping[str, Any], name: str) -> dict[str, str]:
    return {"account": changes["account"].format(name=name)} if "account" in changes else {}


@dataclass
class Found:
    refused: dict[str, set[str]] = field(default_factory=dict)
    """Call (its `what`) -> principals that were refused; of the calls that were made."""
    enforced: set[str] = field(default_factory=set)
    """Calls for which the emulator decides by action, resource and condition: it allows one to a role that may just
    this, and refuses it to a role that may the same on another resource, or with another value of the condition."""


def try_everything(
    services: Services, there: Deployed, *, principals: Iterable[str] = tuple(ROLES), calibrate: bool = True
) -> Found:
    """Make every call with the credentials of every principal; `calibrate` finds out what the emulator enforces."""
    caller, found = Caller(services, region=there.places["region"]), Found()
    made = [call for call in CALLS if call.request is not None]
    keys = {name: caller.keys_of(name, there.roles) for name in principals}
    for name, credentials in keys.items():
        caller.become(credentials)
        for call in made:
            if caller.refuses(call, there.places):
                found.refused.setdefault(call.what, set()).add(name)
    if not calibrate:
        return found
    role = _empty_role(caller)
    credentials = caller.assume(role)
    for call in made:
        exact, others = grants(call, there.places)
        if not _refused_with(caller, call, there, exact, credentials) and all(
            _refused_with(caller, call, there, other, credentials) for other in others
        ):
            found.enforced.add(call.what)
    return found


def grants(call: Call, places: Mapping[str, str]) -> tuple[Statement, list[Statement]]:
    """A statement that allows just this call, and such that miss it by its resource or by its condition."""
    resource = call.at(places)
    conditions = {"Condition": {"StringEquals": dict(call.keys(places))}} if call.context else {}
    exact: dict[str, Any] = {"Effect": "Allow", "Action": call.action, "Resource": resource, **conditions}
    others: list[Statement] = [exact | {"Resource": "arn:aws:trial:::x" if resource == "*" else f"{resource}x"}]
    if call.context:
        others.append(exact | {"Condition": {"StringEquals": {key: "trial" for key in call.context}}})
    return exact, others


def _refused_with(
    caller: Caller, call: Call, there: Deployed, statement: Statement, credentials: Mapping[str, str]
) -> bool:
    caller.administrator("iam").put_role_policy(
        RoleName=SCRATCH, PolicyName="trial", PolicyDocument=_document(statement)
    )
    caller.become(credentials)
    return caller.refuses(call, there.places)


def _empty_role(caller: Caller) -> str:
    trust = {"Effect": "Allow", "Principal": {"Service": "lambda.amazonaws.com"}, "Action": "sts:AssumeRole"}
    created = caller.administrator("iam").create_role(RoleName=SCRATCH, AssumeRolePolicyDocument=_document(trust))
    return str(created["Role"]["Arn"])


def _document(statement: Statement) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


def prepare(services: Services) -> None:
    """What the calls need beside the deployment: another bucket, and a role that trusts the whole account."""
    region = services.client("s3").meta.region_name
    services.client("s3").create_bucket(Bucket="trial-other", CreateBucketConfiguration={"LocationConstraint": region})
    account = {"AWS": f"arn:aws:iam::{ACCOUNT}:root"}
    trust = {"Effect": "Allow", "Principal": account, "Action": "sts:AssumeRole"}
    services.client("iam").create_role(RoleName=OPEN_ROLE, AssumeRolePolicyDocument=_document(trust))


def from_cloud(services: Services, templates: Templates) -> Deployed:
    """Names of what is deployed, the templates telling which is which."""
    formation = services.client("cloudformation")
    region = formation.meta.region_name
    physical = {
        (stack, resource["LogicalResourceId"]): (resource["ResourceType"], resource["PhysicalResourceId"])
        for stack in templates.stacks
        for resource in formation.describe_stack_resources(StackName=stack)["StackResources"]
    }

    def arn(stack: str, logical: str) -> str:
        kind, identity = physical[stack, logical]
        name = identity.rpartition("/")[2] if kind == "AWS::SQS::Queue" else identity
        return ARNS.get(kind, "{id}").format(region=region, account=ACCOUNT, id=name)

    return deployed(templates, arn, account=ACCOUNT, region=region)
