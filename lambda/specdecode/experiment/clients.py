"""How many clients a level takes. If one client cannot measure the load correctly, several share it (ADR 188)."""

from __future__ import annotations

import math

from specdecode.experiment.engine_parts import Resources
from specdecode.experiment.workload import Level, Load, Workload

CHUNKS_PER_STREAM = 50
"""Chunks a second of each stream in the client's measurements (docs/benchmarks.md): one every 20 ms."""
MOST_CLIENTS = 16
"""`MOST_AT_A_TIME` streams at 256 a client."""
CLIENT_CPU = 2.0
"""CPUs of each of several clients: one for its event loop, one for its uploads and its session."""


def clients_of(workload: Workload, level: Level, *, arms: int) -> int:
    """Clients that load `arms` together at `level`; one is enough up to `workload.streams_per_client` streams.

    Of an open loop the number of open streams is not known before. What costs a client is chunks: it is given no more
    of them a second than that many streams have.
    """
    at_once = arms if workload.load is Load.SIMULTANEOUS else 1
    if level.rate is None:
        streams = level.concurrency or 1
        return min(streams, math.ceil(streams * at_once / workload.streams_per_client))
    tokens = max(map(workload.output_tokens_of, workload.cases))
    return math.ceil(level.rate * at_once * tokens / (workload.streams_per_client * CHUNKS_PER_STREAM))


def most_clients(workload: Workload, *, arms: int) -> int:
    """Clients of the level that takes most."""
    return max(clients_of(workload, level, arms=arms) for level in workload.levels)


def each_client(benchmark: Resources, clients: int) -> Resources:
    """Resources of the pod of each of `clients`. `benchmark`: resources of the pod of a single client."""
    return benchmark if clients == 1 else benchmark.model_copy(update={"cpu": min(benchmark.cpu, CLIENT_CPU)})
