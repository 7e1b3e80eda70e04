"""What an engine supports for each method and each family of models, and how long its library is supported."""

from __future__ import annotations

from datetime import date
from typing import Any, Literal

from pydantic import Field

from specdecode.experiment.model import Frozen, Name

Quantization = Literal["bf16", "fp8"]


class MethodSupport(Frozen):
    """How an engine does one method of speculation."""

    vllm_method: str
    """`method` in `--speculative-config`."""
    families: tuple[Name, ...] | None = None
    """Families of targets whose model code takes the method; None: every family that the engine serves."""
    tokens: tuple[int, ...] | None = None
    """The k of the known heads: a head drafts the block that it was trained for, and takes no other k. Kept
    with the engine, since heads of the hub say it in no file that is read here. None: heads take any."""
    neuron_config: dict[str, Any] = Field(default_factory=dict)
    """Neuron configuration that an arm with the method needs."""
    needs_args: tuple[str, ...] = ()
    """Arguments of `vllm serve` without which it does not start; the experiment says them, for both arms."""
    note: str = ""


class FamilySupport(Frozen):
    """What one family of models needs of an engine, in every arm."""

    neuron_config: dict[str, Any] = Field(default_factory=dict)
    hf_overrides: dict[str, Any] = Field(default_factory=dict)
    """`--hf-overrides`, which no experiment sets."""
    quantizations: tuple[Quantization, ...] | None = None
    """None: the engine's own."""
    loaded_per_stored: float = Field(default=1, gt=0)
    """GiB in device memory for each GiB of the checkpoint, which a loader may unpack."""


class Defaults(Frozen):
    """What an engine uses if an experiment sets nothing: keys of its Neuron configuration, and flags
    (`--async-scheduling`).

    Only what decides speed and is not the same in both kinds of arm, or what a preset says aloud.
    """

    plain: dict[str, Any] = Field(default_factory=dict)
    speculating: dict[str, Any] = Field(default_factory=dict)
    forced: tuple[str, ...] = ()
    """Settings that speculation changes, whatever the experiment sets."""
    source: str = ""


class Support(Frozen):
    """The announced end of support of the engine's library."""

    ends: str
    """The first release without support."""
    announced: date
    ended: date | None = None
    """Date of that release. None if it is still to come."""
    successor: Name
    """Engine to move to."""
    loses: str = ""
    """What the successor does not have."""
    source: str

    def sentence(self, engine: str) -> str:
        """The warning, with its date and the engine to move to."""
        when = f"ended on {self.ended} with" if self.ended else "ends with the coming"
        loses = f" ({self.loses})" if self.loses else ""
        return (
            f"{engine}: support {when} {self.ends} (announced on {self.announced}); move to {self.successor}{loses}: "
            "docs/how-to/move-to-the-native-plugin.md"
        )
