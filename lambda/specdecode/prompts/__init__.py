"""Sets of prompts: the data model, and readers for common file formats.

Why it is so: ADR 160.
"""

from specdecode.prompts.bound import CHARACTERS_PER_TOKEN, TOKENS_PER_WIDE, about_tokens, fewest_tokens, most_tokens
from specdecode.prompts.prompt_set import ANY_LENGTH, LONG_FROM, Length, PromptRow, PromptSet
from specdecode.prompts.reading import BadLine, BadPromptSet, digest, read_set, set_name
from specdecode.prompts.reference import HubFile, PromptsOf, SetOf

__all__ = [
    "ANY_LENGTH", "CHARACTERS_PER_TOKEN", "LONG_FROM", "TOKENS_PER_WIDE", "BadLine", "BadPromptSet", "HubFile",
    "Length", "PromptRow", "PromptSet", "PromptsOf", "SetOf", "about_tokens", "digest", "fewest_tokens",
    "most_tokens", "read_set", "set_name",
]  # fmt: skip
