"""A server that answers as fast as it can: `endurance_server.py CHUNKS` prints its port and serves.

Every completion has CHUNKS chunks with the server's running count of tokens, written at once. It ends with its stdin.
"""

import asyncio
import json
import sys

CHUNKS = int(sys.argv[1])


def event(number: int) -> str:
    last = number == CHUNKS
    choice = {"index": 0, "delta": {"content": "word "}, "finish_reason": "length" if last else None}
    usage = {"prompt_tokens": 9, "completion_tokens": number}
    return "data: " + json.dumps({"object": "chat.completion.chunk", "choices": [choice], "usage": usage}) + "\n\n"


STREAM = "".join(event(number + 1) for number in range(CHUNKS)) + "data: [DONE]\n\n"
HEAD = "HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n"
COMPLETION = (HEAD.format("200 OK", "text/event-stream", len(STREAM)) + STREAM).encode()
MODELS = '{"data": [{"id": "model"}]}'
KNOWN = (HEAD.format("200 OK", "application/json", len(MODELS)) + MODELS).encode()
UNKNOWN = HEAD.format("404 Not Found", "text/plain", 0).encode()


class Connection(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport, self.read = transport, b""

    def data_received(self, data: bytes) -> None:
        self.read += data
        head, ended, body = self.read.partition(b"\r\n\r\n")
        length = head.lower().partition(b"content-length: ")[2].partition(b"\r")[0]
        if ended and len(body) >= int(length or 0):
            answer = COMPLETION if b"/completions" in head else KNOWN if b"/models" in head else UNKNOWN
            self.transport.write(answer)
            self.transport.close()


async def serve() -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Connection, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(serve())
