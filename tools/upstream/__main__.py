"""Compare what is here with upstream's own files (`make upstream`).

python -m tools.upstream                 fetch what is missing into .upstream, then compare
python -m tools.upstream --folder DIR    compare with DIR's files, <source>/<path> as in lock.json; fetch nothing
python -m tools.upstream --lock [DIR]    after a pin moved: fetch all anew (or take DIR's files), write their hashes

What is not there is a comparison that is skipped, with its reason. Exit status: 0 all that could be compared agrees
(with a named folder some may be skipped), 1 something differs or could not be fetched, 2 wrong use.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

from tools.upstream.fetch import fetch
from tools.upstream.lock import LOCK, Folder, read_lock, sha256

ROOT = Path(__file__).resolve().parents[2]
FETCHED = ROOT / ".upstream"
SUITE = ("tests/upstream", "--override-ini=python_files=against_*.py")


def main(arguments: list[str]) -> int:
    """Fetch and check as the arguments say. Returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.upstream", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--folder", type=Path, metavar="DIR", help="where upstream's files lie already")
    choice.add_argument(
        "--lock", type=Path, nargs="?", const=FETCHED, metavar="DIR", help="write hashes into lock.json"
    )
    chosen = parser.parse_args(arguments)
    given = chosen.folder or (chosen.lock if chosen.lock != FETCHED else None)
    if given and not given.is_dir():
        print(f"{given} is no folder.", file=sys.stderr)
        return 2
    folder = Folder((given or FETCHED).resolve(), read_lock(LOCK))
    problems = [] if given else fetch(folder, anew=bool(chosen.lock))
    if chosen.lock:
        return _tell(problems) or _write_lock(folder.root)
    wanted = [f"{name}/{path}" for name, source in folder.lock.items() for path in source.files]
    if given and not any((given / path).is_file() for path in wanted):
        print(f"{given} has none of the files of {LOCK.relative_to(ROOT)}, for example {wanted[0]}.", file=sys.stderr)
        return 2
    status = subprocess.run(
        [sys.executable, "-m", "pytest", *SUITE],
        cwd=ROOT,
        env={**os.environ, "UPSTREAM": str(folder.root)},
        check=False,
    ).returncode
    return _tell(problems) or min(status, 1)


def _tell(problems: list[str]) -> int:
    """Print what could not be fetched. Returns 1 if there is anything, else 0."""
    for problem in problems:
        print(f"not fetched: {problem}", file=sys.stderr)
    return min(len(problems), 1)


def _write_lock(root: Path) -> int:
    """Write the hashes of the present files into the lock. Its addresses and revisions are written by hand."""
    raw = json.loads(LOCK.read_text("utf-8"))
    for name, source in raw.items():
        for path, before in source["files"].items():
            where = root / name / path
            digest = sha256(where.read_bytes()) if where.is_file() else None
            if digest is None:
                print(f"{name}/{path} is not there; its hash stays")
            elif digest != before:
                print(f"{name}/{path} has changed: read it")
                source["files"][path] = digest
    LOCK.write_text(json.dumps(raw, indent=2) + "\n", "utf-8")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit("stopped; what was fetched whole is kept")
