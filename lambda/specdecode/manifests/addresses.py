"""How pods reach the server of an arm: its address, and the key that it demands."""

import secrets
from collections.abc import Iterable
from typing import NamedTuple

from specdecode import names
from specdecode.experiment.variants import EndpointVariant
from specdecode.manifests.naming import RenderContext, labels, service_host_variable, serving_name
from specdecode.manifests.pods import KubeObject, secret, word
from specdecode.planning import Arm, Plan


class ArmAddress(NamedTuple):
    url: str
    """As a word of shell source; for an arm that the run serves with the variable of its Service."""
    model: str | None
    """Name of the model, if the server has another one for it than the servers of the run."""
    secret: str | None
    """Name of the Secret with the API key; None if the server demands none."""


def address(plan: Plan, arm: Arm, ctx: RenderContext) -> ArmAddress:
    """The arm's endpoint, or the Service that the run makes for the arm."""
    variant = plan.experiment.variant(arm.variant)
    if isinstance(variant, EndpointVariant):
        return ArmAddress(word(variant.endpoint), variant.served_model_name, variant.api_key_secret)
    own = serving_name(arm, ctx)
    return ArmAddress(f'"http://${service_host_variable(own)}:{names.SERVE_PORT}"', None, own)


ENTRY = "api-key"


def new_api_key() -> str:
    """256 random bits as text that a header takes, at each call others. All else in this package is pure."""
    return secrets.token_urlsafe(32)


def api_key_secret(arm: Arm, ctx: RenderContext, *, key: str) -> KubeObject:
    """Secret of `arm` with `key`. It has the name of the arm's Deployment and Service."""
    own = labels(ctx, "serving", wave=arm.wave, variant=arm.variant)
    return secret(serving_name(arm, ctx), own, {ENTRY: key})


def server_env(arm: Arm, ctx: RenderContext) -> list[KubeObject]:
    """The variable that makes the arm's server demand its key. vLLM reads it if `--api-key` is not given."""
    return [_from_secret("VLLM_API_KEY", serving_name(arm, ctx))]


def client_env(plan: Plan, arms: Iterable[Arm], ctx: RenderContext) -> list[KubeObject]:
    """The keys of `arms` for a pod that asks them; those of servers that already run from the Secret that is named, if
    any.
    """
    secrets_of = {arm.variant: address(plan, arm, ctx).secret for arm in arms}
    return [_from_secret(names.api_key_variable(name), held) for name, held in secrets_of.items() if held]


def _from_secret(variable: str, secret: str) -> KubeObject:
    return {"name": variable, "valueFrom": {"secretKeyRef": {"name": secret, "key": ENTRY}}}
