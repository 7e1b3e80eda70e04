"""Where the data files of the package are: presets, engines, prompts, Kubernetes objects."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import yaml

import specdecode


@cache
def assets_dir() -> Path:
    """The folder: `assets` in the package (installed by pip), or beside the package (the bundle), or in the
    repository.
    """
    package = Path(specdecode.__file__).resolve().parent
    for root in (package, package.parent, package.parent.parent):
        if (root / "assets" / "experiments").is_dir():
            return root / "assets"
    raise FileNotFoundError(f"no assets/ beside {package}: the installation is incomplete")


def kubernetes_objects(file: str) -> list[dict[str, Any]]:
    """The objects in assets/kubernetes/<file>, in its order."""
    return list(yaml.safe_load_all((assets_dir() / "kubernetes" / file).read_text(encoding="utf-8")))
