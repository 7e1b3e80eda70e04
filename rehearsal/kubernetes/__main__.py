"""`python -m rehearsal.kubernetes`: start the double. Once it answers, `ready.json` in its state folder has its
address.
"""

import argparse
import asyncio
import contextlib
import json
import logging
import os
import secrets
import signal
import sys
from pathlib import Path

from rehearsal.kubernetes.double import Double, DoubleOptions
from rehearsal.kubernetes.nodes import INSTANCE_TYPES

READY = "ready.json"
"""File in the state folder, written once the double answers: url, ca_file, admin_token. Only its owner may read it."""


def options(arguments: list[str]) -> DoubleOptions:
    parser = argparse.ArgumentParser(prog="python -m rehearsal.kubernetes", description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="HTTPS port on 127.0.0.1; 0 takes a free one")
    parser.add_argument("--state-dir", type=Path, required=True, help="folder of certificates, volumes and logs")
    parser.add_argument(
        "--image-path", type=Path, required=True, help="the folder whose bin/ is first on the pods' PATH"
    )
    parser.add_argument(
        "--image",
        type=_image,
        action="append",
        default=[],
        metavar="REFERENCE=FOLDER",
        dest="images",
        help="another folder for the containers of this image; repeat",
    )
    parser.add_argument(
        "--aws-endpoint", default="", help="the AWS emulator; without it EKS tokens and S3 volumes fail"
    )
    parser.add_argument("--region", default="us-east-2", help="AWS region of the pods")
    parser.add_argument("--cluster-name", default="rehearsal", help="cluster name in the EKS tokens")
    parser.add_argument(
        "--oidc-issuer",
        default="https://oidc.eks.us-east-2.amazonaws.com/id/REHEARSAL",
        help="issuer of the IRSA tokens",
    )
    parser.add_argument("--admin-token", default="", help="the administrator's bearer token (default: a random one)")
    parser.add_argument("--node-delay", type=float, default=3.0, help="seconds from a NodeClaim to its Node")
    parser.add_argument("--system-nodes", type=int, default=2, help="number of nodes that exist from the start")
    parser.add_argument(
        "--system-instance-type", default="m7i.xlarge", choices=sorted(INSTANCE_TYPES), help="their type"
    )
    parser.add_argument(
        "--backoff", type=float, default=10.0, help="seconds before the first retry of a container or Job"
    )
    parser.add_argument(
        "--ec2", action="store_true", help="launch instances in the emulator's EC2, with Karpenter's role"
    )
    given = parser.parse_args(arguments)
    made_up = {"admin_token": given.admin_token or secrets.token_urlsafe(24), "images": dict(given.images)}
    return DoubleOptions(**{**vars(given), **made_up})


def _image(text: str) -> tuple[str, Path]:
    reference, separator, folder = text.partition("=")
    if not (reference and separator and folder):
        raise argparse.ArgumentTypeError(f"{text!r} is not REFERENCE=FOLDER")
    return reference, Path(folder).absolute()


def _end_with_parent(stop: asyncio.Event) -> None:
    """Set `stop` when the parent process ends, so that the double never outlives it."""
    try:
        parent = os.pidfd_open(os.getppid())
    except (AttributeError, OSError):
        return
    asyncio.get_running_loop().add_reader(parent, stop.set)


def _write_ready(path: Path, ready: dict[str, str]) -> None:
    """Write the file in one step, since another process waits for it."""
    path.with_suffix(".part").write_text("", "utf-8")
    path.with_suffix(".part").chmod(0o600)
    path.with_suffix(".part").write_text(json.dumps(ready), "utf-8")
    path.with_suffix(".part").replace(path)


async def _run(chosen: DoubleOptions) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(number, stop.set)
    _end_with_parent(stop)
    double = Double(chosen)
    try:
        ready = await double.start()
        _write_ready(chosen.state_dir / READY, ready)
        print(f"ready at {ready['url']}", flush=True)
        await stop.wait()
    finally:
        await double.stop()


def main() -> None:
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(name)s: %(message)s")
    logging.getLogger("aiohttp.access").setLevel(logging.WARNING)
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_run(options(sys.argv[1:])))


if __name__ == "__main__":
    main()
