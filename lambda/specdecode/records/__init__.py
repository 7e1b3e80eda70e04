"""The data that a benchmark writes: a record of every request, and facts about the servers. Nothing is computed."""

from specdecode.records.packed import PackedChunks, read_record
from specdecode.records.record import MOST_POSITIONS, Chunk, Drafted, ErrorKind, RequestError, RequestRecord, raw_file
from specdecode.records.servers import CONVERSATIONS, SERVERS, BlockKey, EngineCounters, ServerFacts, Servers, SetFacts

__all__ = [
    "CONVERSATIONS", "MOST_POSITIONS", "SERVERS", "BlockKey", "Chunk", "Drafted", "EngineCounters", "ErrorKind",
    "PackedChunks", "RequestError", "RequestRecord", "ServerFacts", "Servers", "SetFacts", "raw_file",
    "read_record",
]  # fmt: skip
