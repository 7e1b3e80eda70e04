"""The data files of the package: where they are, and what they are called.

Nothing here knows a model of what is in them: the shell's completion asks at every press of a key.
"""

from functools import cache
from pathlib import Path
from typing import Any

import specdecode

CASE_GROUPS = ("structured", "open", "sample", "all")
"""Names for several test cases at once: predictable ones, free ones, the public sample's ten, all."""


@cache
def assets_dir() -> Path:
    """The folder `assets` of the package. In the repository it is a link to the one at the root."""
    return (Path(specdecode.__file__).parent / "assets").resolve()


def preset_names() -> list[str]:
    """Names of the presets that ship with the package."""
    return _names("experiments")


def engine_names() -> list[str]:
    """Names of the engines that ship with the package."""
    return _names("engines")


def _names(folder: str) -> list[str]:
    return sorted(path.stem for path in (assets_dir() / folder).glob("*.yaml"))


def case_names() -> list[str]:
    """Names of the test cases that ship with the package: the keys of its one file of cases."""
    return list(_yaml("prompts/cases.yaml")[0])


def kubernetes_objects(file: str) -> list[dict[str, Any]]:
    """The objects in assets/kubernetes/<file>, in its order."""
    return _yaml(f"kubernetes/{file}")


def _yaml(file: str) -> list[dict[str, Any]]:
    import yaml

    return list(yaml.safe_load_all((assets_dir() / file).read_text(encoding="utf-8")))
