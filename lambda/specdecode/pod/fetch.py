"""Copy folders of the bucket to local disk: `python3 -m specdecode.pod.fetch --bucket B --folder models/…/ …`.

The first container of a pod that compiles, and of a server on a cluster that does not mount the bucket. The engine
reads the copies without credentials.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from specdecode import s3_keys
from specdecode.pod.bucket import Bucket
from specdecode.pod.compile import nothing_to_do
from specdecode.pod.program import Parser, run, say
from specdecode.pod.sources import OPTION, demand_safetensors


def main(arguments: Sequence[str]) -> None:
    """Fetch the finished folders that the command line names, COMPLETE.json last."""
    parser = Parser(description=__doc__)
    parser.add_argument("--bucket", required=True)
    parser.add_argument("--folder", action="append", required=True, help="a finished folder of the bucket; repeat")
    parser.add_argument("--only", action="append", help="a file of each of them, instead of all; repeat")
    parser.add_argument(
        "--artifact", help="fetch nothing if what is made of them, compiled/<fingerprint>/, is complete"
    )
    parser.add_argument(OPTION, action="store_true", help="refuse weights in any other format")
    options = parser.parse_args(arguments)
    bucket = Bucket(options.bucket)
    if options.artifact and bucket.complete(options.artifact) is not None:
        say(f"{options.artifact} is already complete")
        nothing_to_do()
        return
    for prefix in options.folder if options.safetensors else ():  # staged, perhaps, for an engine that reads others too
        if (there := bucket.complete(prefix)) is not None:
            demand_safetensors(prefix, (entry.path for entry in there))
    for prefix in options.folder:
        size = bucket.fetch_folder(prefix, Path(prefix), only=options.only)
        bucket.download(prefix + s3_keys.COMPLETE, Path(prefix) / s3_keys.COMPLETE)
        say(f"fetched {prefix} ({size / 2**30:.2f} GiB)")


if __name__ == "__main__":
    run(main)
