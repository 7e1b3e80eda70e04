"""The key that an arm's server demands: made for one wave of one run, in a Secret that only the arm's pods and those
that ask it refer to.
"""

from __future__ import annotations

import base64
import secrets
from collections.abc import Iterable

from specdecode import names
from specdecode.manifests.addresses import address
from specdecode.manifests.context import RenderContext
from specdecode.manifests.object_names import labels, serving_name
from specdecode.manifests.pods import KubeObject, meta
from specdecode.planning import Arm, Plan

ENTRY = "api-key"
"""Key of the one entry in the Secret."""


def new_api_key() -> str:
    """256 random bits, as text that a header takes. Every call gives another key. Everything else in this package is
    pure.
    """
    return secrets.token_urlsafe(32)


def api_key_secret(arm: Arm, ctx: RenderContext, *, key: str) -> KubeObject:
    """Secret of `arm` with `key`. It has the name of the arm's Deployment and Service."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "Opaque",
        "metadata": meta(serving_name(arm, ctx), labels(ctx, "serving", wave=arm.wave, variant=arm.variant)),
        "data": {ENTRY: base64.b64encode(key.encode()).decode()},
    }


def server_env(arm: Arm, ctx: RenderContext) -> list[KubeObject]:
    """The variable that makes the arm's server demand its key. vLLM reads it if `--api-key` is not given."""
    return [_from_secret("VLLM_API_KEY", serving_name(arm, ctx))]


def client_env(plan: Plan, arms: Iterable[Arm], ctx: RenderContext) -> list[KubeObject]:
    """The keys of `arms` for a pod that asks them, each in the variable that the programs look for.

    The key of a server that already runs comes from the Secret that the experiment names, if any.
    """
    secrets_of = {arm.variant: address(plan, arm, ctx).secret for arm in arms}
    return [_from_secret(names.api_key_variable(name), secret) for name, secret in secrets_of.items() if secret]


def _from_secret(variable: str, secret: str) -> KubeObject:
    return {"name": variable, "valueFrom": {"secretKeyRef": {"name": secret, "key": ENTRY}}}
