"""The server's counters under vLLM's own names, in Prometheus' text format."""

import time

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

from rehearsal.engine.sequence import Sequence

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_TTFT_BUCKETS = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0)
_LATENCY_BUCKETS = (0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0)


class EngineMetrics:
    """Counters of one engine. Those of speculation exist only if it is on (`k` > 0), as in vLLM. If `counted` is False
    they stay at 0, as in the 0.9.1 Neuron fork, which defines them and never fills them.
    """

    def __init__(self, *, model_name: str, k: int, counted: bool = True) -> None:
        self._counted = counted
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)  # vLLM has the default registry, which has it
        labels = {"model_name": model_name, "engine": "0"}

        def gauge(name: str, text: str) -> Gauge:
            return Gauge(f"vllm:{name}", text, labels, registry=self._registry).labels(**labels)

        def counter(name: str, text: str) -> Counter:
            return Counter(f"vllm:{name}", text, labels, registry=self._registry).labels(**labels)

        def histogram(name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
            return Histogram(f"vllm:{name}", text, labels, registry=self._registry, buckets=buckets).labels(**labels)

        self._running = gauge("num_requests_running", "Number of requests in model execution batches.")
        self._waiting = gauge("num_requests_waiting", "Number of requests waiting to be processed.")
        self._cache = gauge("kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage.")
        self._prompt = counter("prompt_tokens", "Number of prefill tokens processed.")
        self._generation = counter("generation_tokens", "Number of generation tokens processed.")
        Gauge(
            "vllm:cache_config_info",
            "Information of the LLMEngine CacheConfig",
            ["engine", "enable_prefix_caching"],
            registry=self._registry,
        ).labels(engine="0", enable_prefix_caching="False").set(1)
        self._success = Counter(
            "vllm:request_success",
            "Count of successfully processed requests.",
            [*labels, "finished_reason"],
            registry=self._registry,
        )
        self._success_of = {
            reason: self._success.labels(**labels, finished_reason=reason) for reason in ("stop", "length", "abort")
        }
        self._ttft = histogram("time_to_first_token_seconds", "Time to first token in seconds.", _TTFT_BUCKETS)
        self._e2e = histogram("e2e_request_latency_seconds", "End to end request latency in seconds.", _LATENCY_BUCKETS)
        if k:
            self._drafts = counter("spec_decode_num_drafts", "Number of spec decoding drafts.")
            self._draft_tokens = counter("spec_decode_num_draft_tokens", "Number of draft tokens.")
            self._accepted = counter("spec_decode_num_accepted_tokens", "Number of accepted tokens.")
            per_position = Counter(
                "vllm:spec_decode_num_accepted_tokens_per_pos",
                "Accepted tokens per draft position.",
                [*labels, "position"],
                registry=self._registry,
            )
            self._accepted_at = [per_position.labels(**labels, position=str(position)) for position in range(k)]

    def load(self, *, running: int, waiting: int, cache_usage: float) -> None:
        """Set the state between two steps."""
        self._running.set(running)
        self._waiting.set(waiting)
        self._cache.set(cache_usage)

    def stepped(self, sequence: Sequence, *, generated: int, first: bool) -> None:
        """Count `generated` tokens of a sequence in a step. `first`: this step read its prompt."""
        if first:
            self._prompt.inc(sequence.prompt_tokens)
            self._ttft.observe(time.monotonic() - sequence.arrived)
        self._generation.inc(generated)

    def speculated(self, *, drafted: int, accepted: int) -> None:
        """Count one verified draft of one sequence."""
        if not self._counted:
            return
        self._drafts.inc()
        self._draft_tokens.inc(drafted)
        self._accepted.inc(accepted)
        for position in range(accepted):
            self._accepted_at[position].inc()

    def finished(self, sequence: Sequence, *, reason: str) -> None:
        """Count a request that ended for `reason`, and its time from arrival to now."""
        self._success_of[reason].inc()
        self._e2e.observe(time.monotonic() - sequence.arrived)

    def render(self) -> bytes:
        """The page of /metrics."""
        return generate_latest(self._registry)
