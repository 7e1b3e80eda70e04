"""Test cases: the types of prompts, and where their prompts come from."""

from __future__ import annotations

from enum import StrEnum

from pydantic import Field

from specdecode.experiment.base import Frozen, Label, Name, Prose
from specdecode.prompts.reference import PromptsOf


class PromptKind(StrEnum):
    """The meaning of `TestCase.text`.

    `line`: a line, repeated 500 times as LLMPerf's corpus; `sonnet`: empty, since LLMPerf's own corpus is used;
    `text`: the prompt, sent as it is; `set`: empty, since `TestCase.prompts` names the prompts.
    """

    LINE = "line"
    SONNET = "sonnet"
    TEXT = "text"
    SET = "set"


SAMPLE = "sample"
"""Group of the public sample's eight cases and the two of its article."""


class TestCase(Frozen):
    """One prompt type."""

    __test__ = False  # not a pytest class

    name: Name
    label: Label
    """Value of the CloudWatch dimension `TestCase` (the sample's text with spaces as `_`)."""
    kind: PromptKind
    """What `text` is."""
    text: str = ""
    """A line or a prompt; `kind` says which."""
    prompts: PromptsOf | None = None
    """The prompts of a case of kind `set`. `workload.prompts` writes such cases, one for each category."""
    requests: int | None = Field(default=None, ge=1, le=100_000)
    """Measured requests of this case. Unset: the number of the workload. Each turn of a conversation is one."""
    output_tokens: int | None = Field(default=None, ge=1, le=2**20)
    """Longest answer of this case. Unset: the length of the workload. A length in the set of prompts goes before
    both."""
    structured: bool
    """Whether the continuation is predictable. The report shows such cases apart from open-ended prompts."""
    source: Prose = ""
    """Where the prompt comes from. Reports show it; it decides nothing."""

    @property
    def group(self) -> str:
        """The group of the case: its set, the public sample with its article, or none."""
        if self.prompts is not None:
            return self.prompts.set
        return SAMPLE if self.source in ("public sample", "article") else "cases"
