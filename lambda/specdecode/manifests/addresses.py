"""How a pod that sends requests reaches the server of an arm."""

from __future__ import annotations

from typing import NamedTuple

from specdecode import names
from specdecode.experiment.model import EndpointVariant
from specdecode.manifests.context import RenderContext
from specdecode.manifests.object_names import service_host_variable, serving_name
from specdecode.manifests.pods import word
from specdecode.planning import Arm, Plan


class ArmAddress(NamedTuple):
    """Where an arm's server is, and what it is asked with."""

    url: str
    """As a word of shell source. The URL of an arm that the run serves has the variable that Kubernetes sets for its
    Service."""
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
