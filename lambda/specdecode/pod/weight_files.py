"""Copy weights to local disk, to be compiled: `python3 -m specdecode.pod.weight_files --bucket B --model models/…/ …`.

The first container of the compile pod. The engine reads the files without credentials of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from specdecode.pod.bucket import Bucket
from specdecode.pod.compile import NOTHING_TO_DO
from specdecode.pod.program import Parser, run, say
from specdecode.pod.weight_format import OPTION, demand_safetensors


def main(arguments: Sequence[str]) -> None:
    """Fetch the weights that the command line names, unless their artifact is there."""
    parser = Parser(description=__doc__)
    parser.add_argument("--bucket", required=True)
    parser.add_argument("--artifact", required=True, help="what will be made of them, compiled/<fingerprint>/")
    parser.add_argument(
        "--model", action="append", required=True, help="prefix of weights to fetch; repeat for a draft"
    )
    parser.add_argument(OPTION, action="store_true", help="refuse weights in any other format")
    options = parser.parse_args(arguments)
    bucket = Bucket(options.bucket)
    if bucket.complete(options.artifact) is not None:
        say(f"{options.artifact} is already complete")
        NOTHING_TO_DO.parent.mkdir(exist_ok=True)
        NOTHING_TO_DO.touch()
        return
    if options.safetensors:  # staged, perhaps, for an engine that reads others too
        for prefix in options.model:
            if (there := bucket.complete(prefix)) is not None:
                demand_safetensors(prefix, (entry.path for entry in there))
    for prefix in options.model:
        size = bucket.fetch_folder(prefix, Path(prefix))
        say(f"fetched {prefix} ({size / 2**30:.2f} GiB)")


if __name__ == "__main__":
    run(main)
