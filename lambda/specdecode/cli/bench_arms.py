"""Options of `specdecode bench` about single arms: `VALUE` for all arms, `NAME=VALUE` for one."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from specdecode.experiment.most_tokens import MostTokens

Value = TypeVar("Value")


@dataclass(frozen=True, kw_only=True)
class KnownOfArms:
    """What the user said about the servers, by arm. The key None stands for all arms."""

    models: Mapping[str | None, str]
    """The model's name at the server."""
    prices: Mapping[str | None, float]
    """US dollars an hour."""
    drafted: Mapping[str | None, int]
    """Tokens that the server drafts in a step (k)."""
    most: Mapping[str | None, MostTokens]
    """Most tokens that a step yields."""

    def arms(self, names: Iterable[str]) -> dict[str, dict[str, Any]]:
        """The fields of each arm of the benchmark's specification."""
        return {
            name: {
                "model": self.models.get(name),
                "price_per_hour": self.prices.get(name, self.prices.get(None)),
                "num_speculative_tokens": self.drafted.get(name),
                "most_tokens_per_step": self.most.get(name, self.most.get(None)),
            }
            for name in names
        }


def of_arms(
    option: str, given: list[str], arms: Container[str], read: Callable[[str], Value], *, what: str
) -> Mapping[str | None, Value]:
    """Reads the values of an option: `VALUE` (key None: for all arms) or `NAME=VALUE`. ValueError names each value that
    is neither.
    """
    found: dict[str | None, Value] = {}
    wrong = []
    for entry in given:
        name, equals, rest = entry.partition("=")
        arm, text = (name, rest) if equals and name in arms else (None, entry)
        try:
            found[arm] = read(text)
        except ValueError:
            wrong.append(f"{option} {entry}: write {what}, or the name of an arm, = and {what}")
    if wrong:
        raise ValueError("; ".join(wrong))
    return found
