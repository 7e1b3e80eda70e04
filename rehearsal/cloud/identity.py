"""STS: the audience of a web identity token, which the token may list and a trust policy names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Principal = tuple[str, dict[str, Any]]


def one_audience(principal: Callable[..., Principal]) -> Callable[..., Principal]:
    """Wrap the emulator's reading of a token: a list with one audience, as EKS signs it, counts as that audience."""

    def web_identity_principal(*arguments: Any) -> Principal:
        provider, keys = principal(*arguments)
        return provider, {
            key: value[0] if isinstance(value, list) and len(value) == 1 else value for key, value in keys.items()
        }

    return web_identity_principal
