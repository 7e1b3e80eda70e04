"""What a benchmark leaves: a record of every request, and what it learned of the servers. Nothing in it is computed."""

from specdecode.records.packed import PackedChunks, read_record
from specdecode.records.request import Chunk, ErrorKind, RequestError, RequestRecord
from specdecode.records.servers import SERVERS, EngineCounters, ServerFacts, Servers

__all__ = [
    "SERVERS",
    "Chunk",
    "EngineCounters",
    "ErrorKind",
    "PackedChunks",
    "RequestError",
    "RequestRecord",
    "ServerFacts",
    "Servers",
    "read_record",
]
