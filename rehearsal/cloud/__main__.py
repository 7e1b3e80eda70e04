"""`python -m rehearsal.cloud --socket FD --state-dir DIR`: serve the embedded AWS until SIGTERM.

The parent binds the socket. So it knows the port before this process starts (the Kubernetes double needs it), and no
other process can take the port. SPECDECODE_KUBE_URL, _CA, _TOKEN and _ISSUER describe the cluster's API.
"""

import argparse
import os
import signal
import socket
import sys
from pathlib import Path

from rehearsal.cloud.functions import runtime_folder
from rehearsal.cloud.kubernetes import Kubernetes


def settings(*, port: int, state_dir: Path) -> dict[str, str]:
    """The emulator's environment, read when its modules are imported.

    Everything is in memory and on loopback. Docker is not used, even if a daemon runs. IAM policies are enforced.
    """
    return {
        "AUTH": "true",
        "BIND_HOST": "127.0.0.1",
        "GATEWAY_PORT": str(port),
        "MINISTACK_HOST": "127.0.0.1",
        "DOCKER_HOST": f"unix://{state_dir}/no-docker.sock",
        "LAMBDA_EXECUTOR": "local",
        "IOT_MTLS_ENABLED": "0",
        "SFTP_ENABLED": "0",
        "S3_DATA_DIR": str(state_dir / "s3"),
        "STATE_DIR": str(state_dir / "state"),
        "TMPDIR": str(state_dir),
        "LOG_LEVEL": "INFO",
    }


def serve(descriptor: int) -> None:
    """Run the emulator's ASGI app on a bound socket, until the process is told to end."""
    import asyncio

    from hypercorn.asyncio import serve as hypercorn
    from hypercorn.config import Config
    from ministack.app import app

    config = Config()
    config.bind = [f"fd://{descriptor}"]
    config.keep_alive_timeout = 75
    config.accesslog = None

    async def until_told() -> None:
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        await hypercorn(app, config, shutdown_trigger=stop.wait)

    asyncio.run(until_told())


def main() -> int:
    parser = argparse.ArgumentParser(prog="rehearsal.cloud", description=__doc__)
    parser.add_argument("--socket", type=int, required=True, help="file descriptor of a bound TCP socket")
    parser.add_argument(
        "--state-dir", type=Path, required=True, help="folder for the functions' files; you may delete it afterwards"
    )
    arguments = parser.parse_args()
    state_dir: Path = arguments.state_dir.resolve()
    state_dir.mkdir(parents=True, exist_ok=True)
    with socket.socket(fileno=os.dup(arguments.socket)) as bound:
        port = bound.getsockname()[1]
    os.environ.update(settings(port=port, state_dir=state_dir))
    kubernetes = Kubernetes.from_environment()

    from rehearsal.cloud.patches import patches

    for patch in patches(kubernetes=kubernetes, runtime=runtime_folder(state_dir / "lambda-runtime")):
        patch.apply()
    serve(arguments.socket)
    return 0


if __name__ == "__main__":
    sys.exit(main())
