"""The format of weights. An engine that reads slices of tensors reads only safetensors."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePosixPath

from specdecode.exit_codes import Exit
from specdecode.pod.program import PodError

PICKLED = (".bin", ".pt", ".pth")
OPTION = "--safetensors"
"""Option of the programs that move weights: refuse a folder without safetensors before a byte of it is moved."""


def demand_safetensors(name: str, paths: Iterable[str]) -> None:
    """Raises PodError, with what to do, unless a file of the folder `name` is in safetensors."""
    paths = sorted(paths)
    if any(path.endswith(".safetensors") for path in paths):
        return
    pickled = [path for path in paths if PurePosixPath(path).suffix in PICKLED]
    found = f"only {pickled[0]}" if pickled else "no file of that kind"
    raise PodError(
        Exit.CORRUPT,
        f"{name} has no weights in safetensors ({found}), and this engine reads no other format: take a model or a "
        "head that is published in it, or convert the files, upload them below imports/ and name them with "
        "import_prefix",
    )
