"""Token accounting: four ways to count tokens, so that a figure can be compared with other tools' figures."""

from specdecode.measures.accounting.base import MODES, Accounting, Figures, Mode, Retokenize
from specdecode.measures.accounting.llmperf import LlmperfAccounting
from specdecode.measures.accounting.usage import UsageAccounting


def accounting_of(mode: Mode, *, retokenize: Retokenize | None = None) -> Accounting:
    """The accounting with that name. Only LLMPerf's two modes use `retokenize`."""
    if mode in ("usage", "vllm"):
        return UsageAccounting(mode)
    return LlmperfAccounting(patched=mode == "neuron", retokenize=retokenize)


__all__ = ["MODES", "Accounting", "Figures", "Mode", "Retokenize", "accounting_of"]
