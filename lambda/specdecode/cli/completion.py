"""What the shell offers at the tab key: presets, runs in this folder, test cases.

No completion uses the network, so runs in the bucket are not offered: `specdecode runs` lists them. None reads what
is in a preset: the names of files are enough.
"""

from pathlib import Path

from specdecode.assets import CASE_GROUPS, case_names, preset_names

RESULTS = Path("results")
"""The folder of runs, unless --out names another."""


def experiments(incomplete: str) -> list[str]:
    """Presets, and YAML files in the folder that the user has typed."""
    folder = Path(incomplete).parent if "/" in incomplete else Path()
    files = sorted(str(path) for path in folder.glob("*.yaml")) if folder.is_dir() else []
    return [name for name in (*preset_names(), *files) if name.startswith(incomplete)]


def runs(incomplete: str) -> list[str]:
    """Folders below results/ that hold a report. After a comma or `..` it completes the last part."""
    cut = max(incomplete.rfind(",") + 1, incomplete.rfind("..") + 2 if ".." in incomplete else 0)
    done, begun = incomplete[:cut], incomplete[cut:]
    found = sorted(str(path.parent) for path in RESULTS.glob("*/report.json"))
    return [done + name for name in found if name.startswith(begun)]


def experiments_or_runs(incomplete: str) -> list[str]:
    """Presets, then runs."""
    return [*experiments(incomplete), *runs(incomplete)]


def cases(incomplete: str) -> list[str]:
    """Test cases and their groups."""
    return [name for name in (*case_names(), *CASE_GROUPS) if name.startswith(incomplete)]
