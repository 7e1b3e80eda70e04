"""HTTP servers on this machine, for tests."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Handler(BaseHTTPRequestHandler):
    """One that logs nothing."""

    def body(self) -> bytes:
        """What was sent."""
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def reply(self, status: int = 200, body: bytes = b"", **headers: str) -> None:
        """A whole answer. In the names of `headers` an underscore is a hyphen."""
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        """Nothing."""


@contextmanager
def served(handler: type[Handler], host: str = "127.0.0.1") -> Iterator[str]:
    """The address of a server that runs meanwhile."""
    with ThreadingHTTPServer((host, 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://{host}:{server.server_port}"
        server.shutdown()
