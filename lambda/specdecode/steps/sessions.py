"""Sessions of AWS for the pods of a step: made with their Job, renewed when the step looks (ADR 127)."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from specdecode.kubernetes.resources import KubeObject, name_of
from specdecode.manifests import RenderContext, Rights, session_policy, session_secret
from specdecode.steps import logs
from specdecode.steps.errors import AccessRefused
from specdecode.steps.runtime import Runtime

LASTS = timedelta(hours=1)
"""Longest session that a role may give to another role ("role chaining", IAM user guide, "Terms and concepts")."""
RENEWED_AT = timedelta(minutes=35)
"""It is renewed when less is left. A pod reads the new one from 15 minutes before the end (botocore, credentials.py), a
mounted Secret follows in 60 to 90 s, and a step looks every minute. So about 15 failed looks do no harm.
"""
REFUSED = (
    "AccessDenied",
    "MalformedPolicyDocument",
    "PackedPolicyTooLarge",
    "ValidationError",
    "RegionDisabledException",
)
"""Errors of STS that another try cannot mend."""


@dataclass(frozen=True)
class Sessions:
    """For the pods of one Job: their rights, and the Secret that holds their session."""

    rt: Runtime
    ctx: RenderContext
    rights: Rights

    def make(self, job: KubeObject) -> KubeObject:
        """The Secret of `job` with a new session. Raises AccessRefused, or botocore's error if STS cannot do it now."""
        role = self.rt.environ["POD_ROLE_ARN"]
        policy = session_policy(self.rights, self.ctx, partition=role.split(":")[1])
        try:
            answer = self.rt.clients("sts").assume_role(
                RoleArn=role,
                RoleSessionName=name_of(job),
                Policy=policy,
                DurationSeconds=int(LASTS.total_seconds()),
            )
        except ClientError as error:
            if error.response["Error"]["Code"] not in REFUSED:
                raise
            raise AccessRefused(
                f"AWS gives the pods of {name_of(job)} no session of {role}: {error}. Deploy SpecDecodeStack again if "
                "somebody changed the role or its trust. A policy of the organization may deny sts:AssumeRole, too"
            ) from None
        return self._secret(job, answer["Credentials"])

    def _secret(self, job: KubeObject, credentials: Mapping[str, Any]) -> KubeObject:
        until: datetime = credentials["Expiration"]
        self.rt.sessions[name_of(job)] = until
        return session_secret(
            job,
            key_id=credentials["AccessKeyId"],
            secret_key=credentials["SecretAccessKey"],
            token=credentials["SessionToken"],
            until=until,
        )

    def renew(self, live: KubeObject) -> None:
        """Put a new session into the Secret of the running Job `live` if the old one ends soon.

        A function that started cold does not know when it ends (no function may read a Secret) and renews at once. If
        AWS cannot do it now, the next look tries again, as long as the session lasts.
        """
        until = self.rt.sessions.get(name_of(live))
        left = until - self.rt.now() if until else timedelta()
        if left > RENEWED_AT:
            return
        try:
            secret = self.make(live)
        except (ClientError, BotoCoreError) as error:
            if left <= timedelta():
                raise
            logs.info("session not renewed", job=name_of(live), minutes_left=left.total_seconds() // 60, why=str(error))
            return
        secret["metadata"]["ownerReferences"] = live["metadata"]["ownerReferences"]
        self.rt.kube.replace(secret)
