"""Sets of prompts: the data model, and readers for the formats in which people have theirs."""

from specdecode.prompts.bound import fewest_tokens, most_tokens
from specdecode.prompts.model import ANY_LENGTH, LONG_FROM, Length, PromptRow, PromptSet
from specdecode.prompts.reading import BadLine, BadPromptSet, digest, read_set, set_name
from specdecode.prompts.reference import HubFile, PromptsOf, SetOf

__all__ = [
    "ANY_LENGTH",
    "LONG_FROM",
    "BadLine",
    "BadPromptSet",
    "HubFile",
    "Length",
    "PromptRow",
    "PromptSet",
    "PromptsOf",
    "SetOf",
    "digest",
    "fewest_tokens",
    "most_tokens",
    "read_set",
    "set_name",
]
