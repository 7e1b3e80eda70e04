"""Check whether this machine can run real vLLM, and say what it takes: `python -m rehearsal.upstream.machine FOLDER`.

Exit status: 0 it can (one line says what follows), 3 it cannot (every reason, and what to do).
"""

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

DOWNLOAD_GB = 0.6
INSTALLED_GB = 2.4
"""The packages and the two model folders."""
RUN_GB = 3.0
"""Bytes on disk during a run: the models in the bucket and in each arm's pod, the embedded cloud."""
MEMORY_GB = 8.0
"""Bytes of memory: two arms of 3.2 GB each, and the embedded cloud."""
GB = 1e9


@dataclass(frozen=True, kw_only=True)
class Machine:
    """The properties of a machine that decide."""

    cpu_flags: frozenset[str]
    available_memory: int
    """Bytes that new processes can have without swapping."""
    free_disk: int
    """Free bytes on the disk of the packages."""


def this_machine(folder: Path) -> Machine:
    """The machine that runs this. `folder` is the folder of the installation (or its nearest parent that exists)."""
    flags = next(line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("flags"))
    memory = next(line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemAvailable"))
    while not folder.exists():
        folder = folder.parent
    return Machine(
        cpu_flags=frozenset(flags.split()),
        available_memory=int(memory.split()[1]) * 1024,
        free_disk=shutil.disk_usage(folder).free,
    )


def problems(machine: Machine, *, installed: bool) -> list[str]:
    """Reasons why the machine cannot rehearse with vLLM. Empty if it can."""
    found = []
    if "avx2" not in machine.cpu_flags:
        found.append("The CPU has no AVX2, without which vLLM's kernels do not run. Use another machine.")
    if machine.available_memory < MEMORY_GB * GB:
        found.append(
            f"{machine.available_memory / GB:.1f} GB of memory are available, and two arms of vLLM with the embedded "
            f"cloud need {MEMORY_GB:g} GB. End other programs, or use a larger machine."
        )
    needed = RUN_GB + (0 if installed else INSTALLED_GB + DOWNLOAD_GB)
    if machine.free_disk < needed * GB:
        found.append(f"{machine.free_disk / GB:.1f} GB of disk are free, and {needed:g} GB are needed. Make room.")
    return found


def main() -> int:
    folder = Path(sys.argv[1])
    installed = (folder / ".installed").exists()
    found = problems(this_machine(folder.absolute()), installed=installed)
    if found:
        print(*found, "`make rehearse` without ENGINE=vllm needs far less.", sep="\n", file=sys.stderr)
        return 3
    if not installed:
        print(
            f"vLLM is installed first: a download of about {DOWNLOAD_GB:g} GB, {INSTALLED_GB:g} GB in "
            f"{os.path.relpath(folder)} (`make clean` removes it)."
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
