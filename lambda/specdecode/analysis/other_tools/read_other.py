"""Results of vLLM's `bench serve` (and its sweep), AIPerf and GuideLLM, read into the arms that are compared.

Everything is taken from the requests that the files list, not from the tools' own statistics: a request's times and the
tokens that were counted mean the same in all of them, what is computed from these does not (`MEANS`).

The files in the tests were written by the versions that the readers name.
"""

from __future__ import annotations

from pathlib import Path

from specdecode.analysis.other_tools.aiperf_results import AIPERF_RECORDS, AIPERF_SUMMARY, aiperf_arm
from specdecode.analysis.other_tools.guidellm_results import guidellm_arm
from specdecode.analysis.other_tools.llmperf_results import ImportedArm, ImportProblem, read_json
from specdecode.analysis.other_tools.tool_arm import AIPERF, GUIDELLM, VLLM
from specdecode.analysis.other_tools.vllm_results import vllm_arm

MEANS = {
    VLLM: "its mean_itl_ms is the time between chunks, and with speculation a chunk holds several tokens: it says the "
    "opposite of the truth and is not used; its throughput is over the whole run, with the time in which the load "
    "rises and falls; requests that waited for a free place (--max-concurrency) did so before their time began",
    AIPERF: "its inter_token_latency is the time per output token after the first, its inter_chunk_latency is the time "
    "between chunks and is not used; the TTFT of a request on a new connection holds the time to connect; without "
    "--use-server-token-count its tokens are counted again by a tokenizer at the client",
    GUIDELLM: "its time_per_output_token_ms is the whole latency divided by all tokens: it contains the time "
    "to the first token and is not used; its inter_token_latency_ms is what is called time per output token here",
}
"""Tool -> what its own figures mean, for whoever compares them with these."""


def read_other(path: Path, *, name: str) -> ImportedArm | None:
    """The arm in a file or folder of one of these tools. None if it is none of theirs. Raises ImportProblem."""
    file = _result_file(path)
    if file is None:
        return None
    if file.name == AIPERF_SUMMARY:
        return aiperf_arm(file, name)
    document = read_json(file)
    head = document[0] if isinstance(document, list) and document else document
    if isinstance(head, dict) and {"mean_ttft_ms", "total_output_tokens"} <= head.keys():
        return vllm_arm(file, document if isinstance(document, list) else [document], name)
    if isinstance(head, dict) and "guidellm_version" in (head.get("metadata") or {}):
        return guidellm_arm(file, head, name)
    return None


def _result_file(path: Path) -> Path | None:
    """The file to read: itself, AIPerf's, a sweep's summary.json, or the only JSON file of the folder."""
    if not path.exists():
        raise ImportProblem(f"{path}: no such file or folder")
    if path.is_file():
        return path.with_name(AIPERF_SUMMARY) if path.name == AIPERF_RECORDS else path
    for known in (AIPERF_SUMMARY, "summary.json"):
        if (path / known).is_file():
            return path / known
    if combinations := sorted(found.parent.name for found in path.glob("*/summary.json")):
        raise ImportProblem(
            f"{path}: a sweep of {len(combinations)}; give one of its folders: {', '.join(combinations)}"
        )
    found = [
        file for file in sorted(path.glob("*.json")) if not file.name.endswith(("_summary.json", "_responses.json"))
    ]
    return found[0] if len(found) == 1 else None
