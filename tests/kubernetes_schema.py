"""Kubernetes' own schemas, each read once: a file of them takes longer to read than all objects to check."""

from collections.abc import Mapping
from functools import cache
from typing import Any

from kubernetes_validate import utils

VERSION = "1.35"
utils.schema_contents = cache(utils.schema_contents)
utils.all_versions = cache(utils.all_versions)


def validate(obj: Mapping[str, Any]) -> None:
    """Raises ValidationError if `obj` is not what the API takes. Fields that it does not know are refused too."""
    utils.validate(dict(obj), VERSION, strict=True)
