"""Lambda functions: the packages of their runtime, and the names of their failures."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

RUNTIME_PACKAGES = ("boto3", "botocore", "dateutil", "jmespath", "s3transfer", "six", "urllib3")
"""The packages of AWS Lambda's python3.11 runtime besides the standard library: the SDK and its dependencies."""


def runtime_folder(folder: Path) -> Path:
    """Make `folder` hold the runtime's packages and nothing else, as links into this interpreter's own."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in RUNTIME_PACKAGES:
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
            raise ModuleNotFoundError(f"{name} is missing in the emulator's environment")
        origin = Path(spec.origin)
        source = origin.parent if origin.name == "__init__.py" else origin
        (folder / source.name).symlink_to(source)
    return folder


def with_runtime(script: str, folder: Path) -> str:
    """The emulator's Python worker, changed so that it sees the function's zip and `folder`, but not the emulator's own
    packages.
    """
    visible = f'[p for p in sys.path if not p.endswith("site-packages")] + [{json.dumps(str(folder))}]'
    return f"import sys\nsys.path[:] = {visible}\n{script}"


def extracting_once(original: Any, folder: Path) -> SimpleNamespace:
    """The `zipfile` module for the emulator's workers: equal zips are extracted once, then linked. All our functions
    are one zip. Without this, each worker would write and compile its 650 files again.
    """
    lock = threading.Lock()

    class Archive(zipfile.ZipFile):
        def extractall(self, path: Any = None, members: Any = None, pwd: bytes | None = None) -> None:
            shared = folder / hashlib.sha256(Path(str(self.filename)).read_bytes()).hexdigest()
            with lock:
                if not shared.exists():
                    super().extractall(shared, members, pwd)
            for entry in shared.iterdir():
                (Path(path) / entry.name).symlink_to(entry)

    return SimpleNamespace(**{**vars(original), "ZipFile": Archive})


def error_type(message: str, trace: str) -> str | None:
    """Class name of the exception at the end of a traceback; None if there is none. `message` is the exception's text.
    The class stands before it in the last part of the traceback.
    """
    _, found, last = trace.rpartition("Traceback (most recent call last):\n")
    if not found:
        return None
    head = last.rstrip("\n").removesuffix(message).rstrip(": ").rsplit("\n", 1)[-1]
    name = head.rsplit(".", 1)[-1]
    return name if name.isidentifier() else None


def naming_errors(execute: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    """Wrap the emulator's invocation: a handler's exception keeps its class name. Retry and Catch compare this name."""

    def execute_function(function: dict[str, Any], event: Any, request_id: str) -> dict[str, Any]:
        result = execute(function, event, request_id)
        body = result.get("body")
        if result.get("error") and isinstance(body, dict) and body.get("errorType") == "Runtime.HandlerError":
            name = error_type(str(body.get("errorMessage", "")), str(result.get("log", "")))
            if name:
                body |= {"errorType": name, "requestId": request_id}
        return result

    return execute_function
