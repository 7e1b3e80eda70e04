"""Lambda functions: the packages of their runtime, and the names of their failures."""

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

FAILED = "_rehearsal_failed"
"""Key of an answer of a worker that stands for its handler's exception."""
REPORTED = (
    "            _real_stdout.write(json.dumps("
    '{"status": "error", "error": str(e), "trace": traceback.format_exc()}) + "\\n")\n'
)
"""How the emulator's worker reports an exception of the handler. The emulator then ends the process."""
AS_ANSWER = f"""\
            traceback.print_exc()
            _ms_told = {{"errorMessage": str(e), "errorType": type(e).__name__}}
            _ms_told["stackTrace"] = traceback.format_tb(e.__traceback__)
            _real_stdout.write(json.dumps({{"status": "ok", "result": {{"{FAILED}": _ms_told}}}}) + "\\n")
"""
"""How it does so here: as AWS's runtime does, which logs it and goes on."""


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
    packages, and so that a handler's exception does not end it.

    Raises ValueError if the worker no longer reports exceptions as it did.
    """
    if REPORTED not in script:
        raise ValueError("the emulator's worker reports exceptions otherwise")
    visible = f'[p for p in sys.path if not p.endswith("site-packages")] + [{json.dumps(str(folder))}]'
    return f"import sys\nsys.path[:] = {visible}\n{script.replace(REPORTED, AS_ANSWER)}"


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


def naming_errors(execute: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    """Wrap the emulator's invocation: a handler's exception keeps its class name. Retry and Catch compare this name."""

    def execute_function(function: dict[str, Any], event: Any, request_id: str) -> dict[str, Any]:
        result = execute(function, event, request_id)
        body = result.get("body")
        if isinstance(body, dict) and FAILED in body:
            return {**result, "error": True, "body": body[FAILED] | {"requestId": request_id}}
        return result

    return execute_function
