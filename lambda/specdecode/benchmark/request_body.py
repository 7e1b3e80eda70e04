"""The JSON that a completion request carries."""

from dataclasses import dataclass
from typing import Any

from specdecode.benchmark.prompts import Prompt
from specdecode.experiment.workload import Workload


@dataclass(frozen=True, kw_only=True)
class BodyDialect:
    """What a server accepts beyond the OpenAI API. The probe finds it out."""

    running_usage: bool = True
    """`stream_options.continuous_usage_stats`: usage with every chunk, so that each chunk's tokens are known."""
    usage: bool = True
    """`stream_options.include_usage`."""
    exact_length: bool = True
    """`ignore_eos` and `min_tokens`."""


def request_body(
    *,
    model: str,
    prompt: Prompt,
    index: int,
    workload: Workload,
    dialect: BodyDialect,
    output_tokens: int | None = None,
) -> dict[str, Any]:
    """Body of request `index`. It is the same in all arms except for `model` and the dialect."""
    tokens = output_tokens or prompt.output_tokens or workload.output_tokens
    body: dict[str, Any] = {
        "model": model,
        "stream": True,
        "max_tokens": tokens,
        "temperature": workload.temperature,
    }
    if prompt.messages is not None:
        body["messages"] = list(prompt.messages)
    elif workload.endpoint == "completions":
        body["prompt"] = prompt.text
    else:
        system = [{"role": "system", "content": ""}] if prompt.as_llmperf else []
        body["messages"] = [*system, {"role": "user", "content": prompt.text}]
    if dialect.usage:
        body["stream_options"] = {"include_usage": True}
        if dialect.running_usage:
            body["stream_options"]["continuous_usage_stats"] = True
    if workload.temperature > 0:
        body["seed"] = workload.seed + index
    if workload.ignore_eos and dialect.exact_length:
        body["ignore_eos"] = True
        body["min_tokens"] = tokens
    if workload.thinking is not None and "messages" in body:
        body["chat_template_kwargs"] = {"enable_thinking": workload.thinking}
    return body
