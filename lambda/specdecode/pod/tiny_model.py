"""Make tiny models with random weights, shaped as those in the bucket: `python3 -m specdecode.pod.tiny_model --bucket B
--layers 2 --model models/…/ …`.

The first container of a start check. Configuration and tokenizer are the model's own; names, types and shapes of the
tensors come from the headers of its safetensors files, so that no architecture need be known here. All but the first
layers are left out. A few KiB of weights are read, and none is copied.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from specdecode import s3_keys
from specdecode.exit_codes import Exit
from specdecode.finished import LENGTH, LONGEST_HEADER, FileEntry
from specdecode.pod.bucket import WORKERS, Bucket
from specdecode.pod.compile import nothing_to_do
from specdecode.pod.program import Parser, PodError, run, say
from specdecode.pod.sources import PICKLED
from specdecode.untrusted import Unreadable, parse_json

CONFIG, LAYERS = "config.json", "num_hidden_layers"
SMALL = 64 * 2**20
"""Most bytes of a file beside the weights: the largest tokenizers have 35 MB."""
_BLOCK = 8 * 131_071
"""Bytes of random values that are written again and again; 131,071 is a prime, so that no two rows are alike."""
_FLOATS = {
    "F64": (8, 0x80, 0x3F),
    "F32": (4, 0x80, 0x3C),
    "BF16": (2, 0x80, 0x3C),
    "F16": (2, 0x83, 0x20),
    "F8_E4M3": (1, 0x87, 0x10),
    "F8_E5M2": (1, 0x83, 0x20),
}
"""Type -> bytes, and of the last (highest) one the bits that stay random and those that are set, so that values are
about 0.01. Random exponents would make infinities. All other types become zeros, which are valid in each."""


class Tensor(NamedTuple):
    """A tensor as a header describes it."""

    dtype: str
    shape: list[int]
    size: int
    """Bytes."""


def main(arguments: Sequence[str]) -> None:
    """Make the models that the command line names, below the working directory."""
    parser = Parser(description=__doc__)
    parser.add_argument("--bucket", required=True)
    parser.add_argument("--layers", type=int, required=True, help="layers that are left of each model")
    parser.add_argument("--model", action="append", required=True, help="a finished folder with a model; repeat")
    parser.add_argument("--head", action="append", default=[], help="a folder with a head for these; it stays whole")
    options = parser.parse_args(arguments)
    bucket = Bucket(options.bucket)
    for prefix in [*options.model, *options.head]:
        if not make(bucket, prefix, layers=options.layers, is_head=prefix in options.head):
            nothing_to_do()


def make(bucket: Bucket, prefix: str, *, layers: int, is_head: bool) -> bool:
    """Write the tiny form of the model at `prefix` into a folder of that name. Returns False if it cannot be had,
    because the weights are in another format.
    """
    entries = [entry for entry in bucket.complete(prefix) or () if "/" not in entry.path]
    files = [entry for entry in entries if entry.path.endswith(".safetensors")]
    if not entries:
        raise PodError(Exit.INCOMPLETE, f"s3://{bucket.name}/{prefix} has no {s3_keys.COMPLETE}: it was never finished")
    if not files:
        say(f"{prefix} has no weights in safetensors: there is no tiny model of it, and nothing is checked")
        return False
    folder = Path(prefix)
    bucket.fetch_folder(prefix, folder, only=[entry.path for entry in entries if _is_beside(entry)])
    config = _document(folder / CONFIG)
    with ThreadPoolExecutor(WORKERS) as pool:
        tensors = dict(pair for found in pool.map(lambda it: _checked(bucket, prefix, it), files) for pair in found)
    whole = _layers_of(config)
    try:
        if is_head:
            config = with_fewer_targets(config, layers)
        elif whole > layers:
            config, tensors = shortened(config, whole, layers), first_layers(tensors, whole, layers)
    except (RecursionError, TypeError) as error:
        raise PodError(Exit.CORRUPT, f"{prefix}{CONFIG} is no configuration of a model: {error}") from None
    (folder / CONFIG).write_text(json.dumps(config, indent=1))
    write(folder / "model.safetensors", tensors)
    size = sum(tensor.size for tensor in tensors.values())
    say(f"{prefix}: {len(tensors)} tensors with random values, {size / 2**30:.2f} GiB")
    return True


def _layers_of(config: Mapping[str, Any]) -> int:
    """As the configuration says it, or that of the part that reads text; 0 if neither does."""
    nested = config.get("text_config")
    found = config.get(LAYERS) or (nested.get(LAYERS) if isinstance(nested, dict) else None)
    return found if isinstance(found, int) else 0


def shortened(config: Any, whole: int, layers: int) -> Any:
    """The configuration of a model of `whole` layers, of which `layers` are left; nested parts too."""
    if not isinstance(config, dict):
        return config

    def value(key: str, old: Any) -> Any:
        if key == LAYERS and old == whole:
            return layers
        if "layer" in key and isinstance(old, list) and len(old) == whole:  # a kind for each layer
            return old[:layers]
        return shortened(old, whole, layers)

    return {key: value(key, old) for key, old in config.items()}


def with_fewer_targets(config: Any, layers: int) -> Any:
    """The configuration of a head whose target has only `layers`. The target's layers that it listens to are others,
    and as many: the width of its input is their number.
    """
    if not isinstance(config, dict):
        return config

    def value(key: str, old: Any) -> Any:
        if key == "num_target_layers":
            return layers
        if key.endswith("layer_ids") and isinstance(old, list):
            apart = max(len(old) - 1, 1)
            return [1 + at * (layers - 3) // apart for at in range(len(old))]
        return with_fewer_targets(old, layers)

    return {key: value(key, old) for key, old in config.items()}


def first_layers(tensors: Mapping[str, Tensor], whole: int, layers: int) -> dict[str, Tensor]:
    """The tensors without those of later layers. A tensor's layer is the first number in its name, if as many layers
    have the same name before it.
    """
    numbers: dict[str, set[int]] = {}
    for stem, number in filter(None, map(_layer, tensors)):
        numbers.setdefault(stem, set()).add(number)
    cut = {stem for stem, found in numbers.items() if len(found) >= whole}
    return {
        name: tensor
        for name, tensor in tensors.items()
        if (at := _layer(name)) is None or at[0] not in cut or at[1] < layers
    }


def _layer(name: str) -> tuple[str, int] | None:
    parts = name.split(".")
    for at, part in enumerate(parts[:-1]):
        if part.isascii() and part.isdigit():
            return ".".join(parts[:at]), int(part)
    return None


def write(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """A safetensors file with random values."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    at = 0
    for name, tensor in tensors.items():
        header[name] = {"dtype": tensor.dtype, "shape": tensor.shape, "data_offsets": [at, at + tensor.size]}
        at += tensor.size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % LENGTH)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(LENGTH, "little") + text)
        for tensor in tensors.values():
            block = _values(tensor.dtype)
            for left in range(tensor.size, 0, -_BLOCK):
                file.write(block[:left])


@cache
def _values(dtype: str) -> bytes:
    if dtype not in _FLOATS:
        return bytes(_BLOCK)
    size, stays, is_set = _FLOATS[dtype]
    block = bytearray(random.Random(1).randbytes(_BLOCK))
    block[size - 1 :: size] = bytes(byte & stays | is_set for byte in block[size - 1 :: size])
    return bytes(block)


def _is_beside(entry: FileEntry) -> bool:
    weights = entry.path.endswith((".safetensors", ".index.json", ".gguf", *PICKLED))
    return not weights and entry.size <= SMALL


def _document(path: Path) -> dict[str, Any]:
    try:
        found = parse_json(path.read_bytes())
    except (OSError, Unreadable) as error:
        raise PodError(Exit.CORRUPT, f"{path}: {error}") from None
    if not isinstance(found, dict):
        raise PodError(Exit.CORRUPT, f"{path} is no configuration of a model")
    return found


def _checked(bucket: Bucket, prefix: str, entry: FileEntry) -> Iterable[tuple[str, Tensor]]:
    """What _tensors() finds. A file of which only the whole has a hash is read whole if its header is none: whether it
    is as it was stored is told then.
    """
    try:
        return _tensors(bucket, prefix, entry)
    except PodError as error:
        if error.code == Exit.CORRUPT and not entry.header:
            bucket.fetch_folder(prefix, Path(prefix), only=[entry.path])
        raise


def _tensors(bucket: Bucket, prefix: str, entry: FileEntry) -> Iterable[tuple[str, Tensor]]:
    """What the header of a file describes. Raises PodError if it is not that which was stored, so that the model is set
    aside; and if it is no header, or describes more than the file has: that came so, and would come so again.
    """
    key = prefix + entry.path
    length = int.from_bytes(bucket.start_of(key, LENGTH), "little")
    start = bucket.start_of(key, LENGTH + min(length, LONGEST_HEADER))
    if entry.header not in ("", sha256(start).hexdigest()):
        raise PodError(Exit.DAMAGED_MODEL, f"the header of {key} differs from its recorded SHA-256")
    if length > len(start) - LENGTH:
        raise PodError(Exit.CORRUPT, f"{key} is no safetensors file")
    try:
        header = parse_json(start[LENGTH:])
        found = [(str(name), _tensor(it)) for name, it in header.items() if name != "__metadata__"]
    except (Unreadable, ValueError, TypeError, LookupError, AttributeError, OverflowError) as error:
        raise PodError(Exit.CORRUPT, f"{key} has no header of safetensors: {error}") from None
    if any(tensor.size < 0 for _, tensor in found) or sum(tensor.size for _, tensor in found) > entry.size:
        raise PodError(Exit.CORRUPT, f"the header of {key} describes more than the file has")
    return found


def _tensor(told: Any) -> Tensor:
    start, end = map(int, told["data_offsets"])
    return Tensor(str(told["dtype"]), [int(n) for n in told["shape"]], end - start)


if __name__ == "__main__":
    run(main)
