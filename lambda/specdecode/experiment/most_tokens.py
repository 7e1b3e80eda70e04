"""How many of its drafts an engine verifies. This limits the tokens that a step yields."""

from enum import StrEnum


class MostTokens(StrEnum):
    """Most tokens that a step yields if an engine drafts k: the drafts that it verifies, and the target's own one.
    `k+1`: all k drafts are verified (vLLM's own engines, Neuron's native plugin: its speculative_decoding_design.md has
    the target process 1 + num_speculative_tokens). `k`: the draft model runs k times, and only the first k - 1 drafts
    are verified (NxD Inference v0.6.10598, models/model_base.py: `_token_gen_forward` gives the target
    `candidate_input_ids[:, :-1]`, `_eagle_token_gen_forward` makes k - 1 candidates; `_tkg_postprocessor` keeps the
    matches and one more. vLLM's loaders set its speculation_length to num_speculative_tokens).
    """

    K = "k"
    K_PLUS_1 = "k+1"

    def verified(self, k: int) -> int:
        """How many of k drafts the target verifies."""
        return max(0, k - 1) if self is MostTokens.K else k
