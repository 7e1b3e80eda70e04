"""Who sends a request: bearer tokens of the administrator and of EKS (a presigned STS request), and EKS's access
entries.
"""

import base64
import datetime
import hmac
import re
import urllib.parse
from collections.abc import Sequence
from dataclasses import dataclass, field

import aiohttp

from rehearsal.kubernetes import errors
from rehearsal.kubernetes.objects import Json

EKS_PREFIX = "k8s-aws-v1."
_ASSUMED_ROLE = re.compile(r"^arn:[\w-]+:sts::(?P<account>\d+):assumed-role/(?P<role>[^/]+)/.+$")
_LIFETIME = datetime.timedelta(minutes=15)


@dataclass(frozen=True, kw_only=True)
class AccessPolicy:
    """An EKS access policy of an access entry. `namespaces` is empty if it holds for the whole cluster."""

    name: str
    namespaces: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class AccessEntry:
    """An EKS access entry: which groups and policies an IAM principal has in the cluster."""

    principal_arn: str
    username: str = ""
    groups: tuple[str, ...] = ()
    policies: tuple[AccessPolicy, ...] = ()


@dataclass(frozen=True, kw_only=True)
class User:
    """Whom a bearer token stands for, and what EKS's access policies let it do."""

    name: str
    groups: tuple[str, ...]
    policies: tuple[AccessPolicy, ...] = ()


@dataclass
class Authenticator:
    """From tokens to users. Presigned STS requests are sent to `aws_endpoint`. Without it EKS tokens are refused."""

    admin_token: str
    aws_endpoint: str = ""
    cluster_name: str = ""
    entries: dict[str, AccessEntry] = field(default_factory=dict)

    async def user(self, authorization: str) -> User:
        """The user of an Authorization header. Raises 401 unless it is a valid token with an access entry."""
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer" or not token:
            raise errors.unauthorized()
        if hmac.compare_digest(token, self.admin_token):
            return User(name="kubernetes-admin", groups=("system:masters", "system:authenticated"))
        if not token.startswith(EKS_PREFIX) or not self.aws_endpoint:
            raise errors.unauthorized()
        arn = await self._ask_sts(token)
        principal = self._principal(arn)
        entry = self.entries.get(principal)
        if entry is None:
            raise errors.unauthorized()
        name = entry.username or arn
        groups = (*entry.groups, "system:authenticated")
        return User(name=name, groups=groups, policies=entry.policies)

    def _principal(self, arn: str) -> str:
        """The IAM role of an assumed-role session; other ARNs (users) unchanged. The session's ARN has no path of the
        role.
        """
        session = _ASSUMED_ROLE.match(arn)
        if not session:
            return arn
        wanted = re.compile(rf"^arn:[\w-]+:iam::{session['account']}:role/(.*/)?{re.escape(session['role'])}$")
        return next((principal for principal in self.entries if wanted.match(principal)), arn)

    async def _ask_sts(self, token: str) -> str:
        """The ARN that STS gives for the presigned GetCallerIdentity request in `token`."""
        encoded = token.removeprefix(EKS_PREFIX)
        try:
            url = base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).decode()
            query = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(url).query))
        except ValueError:
            raise errors.unauthorized() from None
        signed = query.get("X-Amz-SignedHeaders", "").split(";")
        if query.get("Action") != "GetCallerIdentity" or "x-k8s-aws-id" not in signed or _expired(query):
            raise errors.unauthorized()
        target = f"{self.aws_endpoint.rstrip('/')}/?{urllib.parse.urlsplit(url).query}"
        headers = {"x-k8s-aws-id": self.cluster_name, "Accept": "application/json"}
        try:
            timeout = aiohttp.ClientTimeout(total=10)
            async with aiohttp.ClientSession(timeout=timeout) as session, session.get(target, headers=headers) as reply:
                body = await reply.text()
        except (TimeoutError, aiohttp.ClientError):
            raise errors.unauthorized() from None
        found = re.search(r"<Arn>([^<]+)</Arn>", body) or re.search(r'"Arn"\s*:\s*"([^"]+)"', body)
        if reply.status != 200 or not found:
            raise errors.unauthorized()
        return found[1]


def impersonated(user: User, name: str, groups: Sequence[str]) -> User:
    """The user of a request: `user`, or the user in the Impersonate headers. Raises 403 if someone who is no
    administrator sends these headers.
    """
    if not name:
        return user
    if "system:masters" not in user.groups:
        why = f'User "{user.name}" cannot impersonate resource "users" in API group "" at the cluster scope'
        raise errors.ApiError(403, "Forbidden", f'users "{name}" is forbidden: {why}')
    return User(name=name, groups=(*groups, "system:authenticated"))


def _expired(query: dict[str, str]) -> bool:
    """EKS accepts a token for 15 minutes after it was signed."""
    try:
        signed = datetime.datetime.strptime(query["X-Amz-Date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=datetime.UTC)
    except (KeyError, ValueError):
        return True
    return abs(datetime.datetime.now(datetime.UTC) - signed) > _LIFETIME


def entry_of(body: Json) -> AccessEntry:
    """The access entry of a control request `{principal_arn, groups, policies, username}`; a policy is
    `{policy_arn, scope, namespaces}` or its ARN.
    """
    policies = []
    for policy in body.get("policies") or ():
        arn = policy if isinstance(policy, str) else policy["policy_arn"]
        namespaces = () if isinstance(policy, str) else tuple(policy.get("namespaces") or ())
        policies.append(AccessPolicy(name=arn.rsplit("/", 1)[-1], namespaces=namespaces))
    return AccessEntry(
        principal_arn=body["principal_arn"],
        username=body.get("username") or "",
        groups=tuple(body.get("groups") or ()),
        policies=tuple(policies),
    )
