"""A streaming server that knows the truth: it sends tokens on a schedule and records when it sent each chunk.

One process, one epoll loop and a heap of due chunks, so that the server takes little of the machine's two cores. Every
time is the monotonic clock's, which all processes of a machine share. A request's time is its arrival in this kernel,
not when the server got round to it, so that the truth does not depend on the server's own speed either.

    python -m benchmarks.reference.server [--first-ms 50] [--gap-ms 20] [--jitter 0.2] [--most-tokens-a-chunk 8]
    python -m benchmarks.reference.server --step-ms 5 [--sequence-ms 0.8] [--k 5 --acceptance 0.6]

With `--step-ms` all answers are made together in steps, as by an engine with continuous batching: a step's time is a
known function of the number of running sequences, and yields speculative tokens.

Prints its URL. `GET /truth` gives what was sent since the last `GET /truth`.
"""

from __future__ import annotations

import argparse
import hashlib
import heapq
import json
import random
import select
import socket
import time

from benchmarks.reference.connection import SO_TIMESTAMPNS, Connection
from benchmarks.reference.steps import Batch, StepTime
from benchmarks.reference.stream import MODEL, Stream, ending, event

MAX_TOKENS_A_CHUNK = 8
STEP = -1
"""In the heap, in a connection's place: the end of a step."""
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n"


class Server:
    def __init__(
        self,
        *,
        first_s: float,
        gap_s: float,
        jitter: float,
        seed: int,
        most: int = MAX_TOKENS_A_CHUNK,
        steps: StepTime | None = None,
    ) -> None:
        self.batch = Batch(steps) if steps else None
        self.first_s, self.gap_s, self.jitter = first_s, gap_s, jitter
        self.rng = random.Random(seed)
        self.most_tokens_a_chunk = most
        self.connections: dict[int, Connection] = {}
        self.heap: list[tuple[float, int, int]] = []
        self.served: list[Stream] = []
        self.number = 0
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=2048)
        self.listener.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        self.listener.setblocking(False)
        self.epoll = select.epoll()
        self.epoll.register(self.listener, select.EPOLLIN)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.listener.getsockname()[1]}"

    def run(self) -> None:
        while True:
            now = time.monotonic()
            wait = self.heap[0][0] - now if self.heap else 1.0
            for descriptor, _ in self.epoll.poll(max(wait, 0)):
                if descriptor == self.listener.fileno():
                    self.accept()
                else:
                    self.readable(self.connections[descriptor])
            now = time.monotonic()
            while self.heap and self.heap[0][0] <= now:
                at, _, descriptor = heapq.heappop(self.heap)
                if descriptor == STEP:
                    self.step(at)
                else:
                    self.send_chunk(descriptor)

    def accept(self) -> None:
        while True:
            try:
                sock, _ = self.listener.accept()
            except BlockingIOError:
                return
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.connections[sock.fileno()] = Connection(sock)
            self.epoll.register(sock, select.EPOLLIN)

    def readable(self, connection: Connection) -> None:
        connection.receive()
        if connection.closed:
            self.drop(connection)
        elif request := connection.request():
            self.answer(connection, *request)

    def answer(self, connection: Connection, path: str, body: bytes) -> None:
        if path.endswith("/completions"):
            request = json.loads(body)
            self.begin(connection, request)
            if not request.get("stream"):
                raise SystemExit("this server only streams")
        elif path == "/v1/models":
            connection.reply({"object": "list", "data": [{"id": MODEL, "object": "model", "owned_by": "me"}]})
        elif path == "/truth":
            connection.reply(self.truth())
        elif path == "/health":
            connection.reply({})
        else:
            connection.reply({"error": {"message": "no such path"}}, status="404 Not Found")

    def begin(self, connection: Connection, request: dict) -> None:
        chat = "messages" in request
        prompt = request["messages"][-1]["content"] if chat else request["prompt"]
        if isinstance(prompt, list):
            prompt = "".join(part["text"] for part in prompt if isinstance(part, dict))
        left = request.get("max_tokens") or request.get("max_completion_tokens") or 64
        tokens, due = self.plan(connection.arrived, left)
        options = request.get("stream_options") or {}
        connection.stream = Stream(
            prompt_sha256=hashlib.sha256(prompt.encode()).hexdigest(),
            arrived=connection.arrived,
            tokens=tokens,
            due=due,
            chat=chat,
            running_usage=bool(options.get("continuous_usage_stats")),
            usage=bool(options.get("include_usage")),
        )
        connection.sock.send(HEAD)
        self.go_on(connection, connection.arrived)

    def plan(self, arrived: float, left: int) -> tuple[list[int], list[float]]:
        """Tokens of each chunk, and when it is due; in the step mode the steps say when."""
        if self.batch:
            return self.batch.time.sizes(left, self.rng), []
        tokens: list[int] = []
        due: list[float] = []
        at = arrived + self.first_s * self.around_one()
        while left:
            count = 1 if not tokens else min(left, self.rng.randint(1, self.most_tokens_a_chunk))
            tokens.append(count)
            due.append(at)
            left -= count
            at += self.gap_s * self.around_one()
        return tokens, due

    def go_on(self, connection: Connection, now: float) -> None:
        """The next chunk: at its time, or at the end of the next step."""
        if self.batch is None:
            self.schedule(connection.sock.fileno(), connection.stream.due[len(connection.stream.sent)])
            return
        self.batch.waiting.append(connection.sock.fileno())
        if not self.batch.runs:
            self.schedule(STEP, self.batch.begin(now))

    def step(self, at: float) -> None:
        """The step that ended at `at`: a chunk for everybody in it, and the next step at once."""
        for descriptor in self.batch.inside:
            self.send_chunk(descriptor)
        self.batch.runs = bool(self.batch.waiting)
        if self.batch.runs:
            self.schedule(STEP, self.batch.begin(at))

    def around_one(self) -> float:
        return 1 + self.jitter * (2 * self.rng.random() - 1)

    def schedule(self, descriptor: int, at: float) -> None:
        self.number += 1
        heapq.heappush(self.heap, (at, self.number, descriptor))

    def send_chunk(self, descriptor: int) -> None:
        connection = self.connections.get(descriptor)
        if connection is None or connection.stream is None:
            return
        stream = connection.stream
        number = len(stream.sent)
        count = stream.tokens[number]
        stream.counted += count
        data = event(stream, "word " * count, last=number + 1 == len(stream.tokens))
        stream.sent.append(time.monotonic())
        try:
            connection.sock.send(data)
        except OSError:
            self.drop(connection)
            return
        if number + 1 < len(stream.tokens):
            self.go_on(connection, stream.sent[-1])
            return
        connection.stream = None
        self.served.append(stream)
        connection.sock.send(ending(stream))

    def drop(self, connection: Connection) -> None:
        descriptor = connection.sock.fileno()
        self.connections.pop(descriptor, None)
        connection.stream = None
        self.epoll.unregister(descriptor)
        connection.sock.close()

    def truth(self) -> list[dict]:
        served, self.served = self.served, []
        return [
            {
                "prompt_sha256": stream.prompt_sha256,
                "arrived_s": stream.arrived,
                "tokens": stream.tokens,
                "sent_s": [at - stream.arrived for at in stream.sent],
            }
            for stream in served
        ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first-ms", type=float, default=50)
    parser.add_argument("--gap-ms", type=float, default=20)
    parser.add_argument("--jitter", type=float, default=0.2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--step-ms", type=float, help="step mode: time of a step without sequences")
    parser.add_argument("--sequence-ms", type=float, default=0.0, help="what each running sequence adds to it")
    parser.add_argument("--k", type=int, default=0, help="drafts of a step")
    parser.add_argument("--acceptance", type=float, default=0.0, help="chance of each, given those before it")
    parser.add_argument("--most-tokens-a-chunk", type=int, default=MAX_TOKENS_A_CHUNK)
    args = parser.parse_args()
    steps = None
    if args.step_ms:
        per_sequence_s = args.sequence_ms / 1000
        steps = StepTime(
            base_s=args.step_ms / 1000, per_sequence_s=per_sequence_s, k=args.k, acceptance=args.acceptance
        )
    server = Server(
        first_s=args.first_ms / 1000,
        gap_s=args.gap_ms / 1000,
        jitter=args.jitter,
        seed=args.seed,
        most=args.most_tokens_a_chunk,
        steps=steps,
    )
    print(server.url, flush=True)
    server.run()


if __name__ == "__main__":
    main()
