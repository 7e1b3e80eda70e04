"""Whether the models of an experiment can be fetched."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from botocore.exceptions import ClientError

from specdecode import names
from specdecode.cli.preflight.check import Ask, Check
from specdecode.experiment import Experiment
from specdecode.experiment.model import ModelRef
from specdecode.store import Store

HUB = "https://huggingface.co/api/models/"
Probe = Callable[[str], int]
"""Address -> HTTP status of a HEAD request; 0 without an answer."""


def of(experiment: Experiment) -> list[ModelRef]:
    """Each model once."""
    return list({model.prefix: model for v in experiment.variants for model in experiment.models_of(v)}.values())


def stored(model: ModelRef, store: Store) -> Check | None:
    """The check's result from the bucket. None if the hub must be asked."""
    name = f"model {model.id}"
    if store.is_complete(model.prefix):
        return Check(name, "ok", "is in the bucket")
    if not model.import_prefix:
        return None
    where = store.url(model.import_prefix)
    if store.keys(model.import_prefix):
        return Check(name, "ok", f"will be imported from {model.import_prefix}")
    return Check(name, "fail", f"nothing lies in {where}", f"aws s3 cp --recursive <folder> {where}")


def on_the_hub(model: ModelRef, probe: Probe) -> Check:
    """Whether Hugging Face has the model at its revision (`/api/models/<id>/revision/<rev>` of the hub's API)."""
    status, name = probe(f"{HUB}{model.id}/revision/{model.revision}"), f"model {model.id}"
    gated = "; it is gated: whether the token has access shows at staging, before the node is held"
    if status == 200:
        return Check(name, "ok", f"can be downloaded from Hugging Face{gated if model.gated else ''}")
    if status in (401, 403, 404):
        detail = f"Hugging Face answers {status}: no such model, none at revision {model.revision}, or a private one"
        return Check(name, "fail", detail, "check its id and its revision")
    return Check(name, "fail", f"Hugging Face answers {status or 'nothing'}", "check the network, and try again")


def token(ask: Ask) -> Iterator[Check]:
    """The secret with the Hugging Face token, which gated models need. The value is not read."""
    name, secret = "Hugging Face token", names.HF_TOKEN_SECRET
    fix = f"aws secretsmanager create-secret --name {secret} --secret-string file://token.txt --region {ask.region}"
    try:
        found: dict[str, Any] = ask.client("secretsmanager").describe_secret(SecretId=secret)
    except ClientError as error:
        if error.response["Error"]["Code"] != "ResourceNotFoundException":
            raise
        yield Check(name, "fail", f"there is no secret {secret} in {ask.region}", fix)
        return
    if found.get("DeletedDate"):
        restore = f"aws secretsmanager restore-secret --secret-id {secret} --region {ask.region}"
        yield Check(name, "fail", f"the secret {secret} is being deleted", restore)
    else:
        yield Check(name, "ok", f"the secret {secret} exists; its value is tried at staging")
