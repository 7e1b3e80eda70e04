"""Where the data files of the package are: presets, engines, prompts, Kubernetes objects."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import yaml

import specdecode


@cache
def assets_dir() -> Path:
    """The folder `assets` of the package. In the repository it is a link to the one at the root."""
    return (Path(specdecode.__file__).parent / "assets").resolve()


def kubernetes_objects(file: str) -> list[dict[str, Any]]:
    """The objects in assets/kubernetes/<file>, in its order."""
    return list(yaml.safe_load_all((assets_dir() / "kubernetes" / file).read_text(encoding="utf-8")))
