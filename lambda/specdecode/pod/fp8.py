"""Rescale FP8 weights in place from OCP E4M3 (range ±448) to what Neuron's FP8_EXP4 can hold (±240).

Each 8-bit weight is divided by 448/240 and rounded again; each `weight_scale` is multiplied by it. Every weight is
one byte, so that the whole step is a table of 256 bytes. The arithmetic is that of PyTorch, which the Neuron guide
uses: bfloat16 division, round to nearest even.
Source: aws-neuron/neuronx-distributed, quantization/README_rescaling_fp8_for_neuron.md.
"""

from __future__ import annotations

import array
import json
import math
import struct
from collections.abc import Collection
from pathlib import Path
from typing import Any, BinaryIO

from specdecode.exit_codes import Exit
from specdecode.pod.program import PodError

FACTOR = 448.0 / 240.0
CHUNK = 64 * 2**20
_NAN = 0x7F


def rescale_file(path: Path, *, names: Collection[str] | None = None) -> int:
    """Rescale one safetensors file in place and return how many tensors (weights and scales) that changed.

    `names`: all tensors of the checkpoint, where it has several files. Raises PodError for a quantized weight
    without its scale, and for a scale without its weight.
    """
    with path.open("r+b") as file:
        start, header = _read_header(file, path)
        known = set(names or header)
        weights = {name: info for name, info in header.items() if info["dtype"] == "F8_E4M3"}
        scales = {name: info for name, info in header.items() if name.endswith(".weight_scale")}
        _check(path, weights, scales, known, header)
        for info in weights.values():
            _translate(file, start, info["data_offsets"])
        for info in scales.values():
            _multiply(file, start, info["data_offsets"])
    return len(weights) + len(scales)


def _read_header(file: BinaryIO, path: Path) -> tuple[int, dict[str, Any]]:
    try:
        (length,) = struct.unpack("<Q", file.read(8))
        if length > 100 * 2**20:
            raise ValueError(f"header of {length} bytes")
        header = json.loads(file.read(length))
        header.pop("__metadata__", None)
    except (ValueError, struct.error) as error:
        raise PodError(Exit.CORRUPT, f"{path.name} is not a safetensors file: {error}") from error
    return 8 + length, header


def _check(
    path: Path, weights: dict[str, Any], scales: dict[str, Any], known: Collection[str], header: dict[str, Any]
) -> None:
    for name in weights:
        if not name.endswith(".weight") or f"{name}_scale" not in known:
            raise PodError(
                Exit.CORRUPT, f"{path.name}: FP8 tensor {name} has no weight_scale, so it cannot be rescaled"
            )
    for name, info in scales.items():
        weight = name.removesuffix("_scale")
        if weight not in known or (weight in header and weight not in weights):
            raise PodError(Exit.CORRUPT, f"{path.name}: {name} belongs to no FP8 weight")
        if info["dtype"] != "F32":
            raise PodError(Exit.CORRUPT, f"{path.name}: {name} is {info['dtype']}, and only F32 scales are known")


def _translate(file: BinaryIO, start: int, offsets: list[int]) -> None:
    for at in range(start + offsets[0], start + offsets[1], CHUNK):
        file.seek(at)
        data = file.read(min(CHUNK, start + offsets[1] - at))
        file.seek(at)
        file.write(data.translate(TABLE))


def _multiply(file: BinaryIO, start: int, offsets: list[int]) -> None:
    file.seek(start + offsets[0])
    scales = array.array("f", file.read(offsets[1] - offsets[0]))
    factor = _float32(FACTOR)
    file.seek(start + offsets[0])
    file.write(array.array("f", (scale * factor for scale in scales)).tobytes())


def _float32(value: float) -> float:
    return float(struct.unpack("<f", struct.pack("<f", value))[0])


def _bfloat16(value: float) -> float:
    """Nearest bfloat16 of a float32, ties to even."""
    (bits,) = struct.unpack("<I", struct.pack("<f", value))
    bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
    return float(struct.unpack("<f", struct.pack("<I", bits))[0])


def _decode(code: int) -> float:
    """Value of an OCP E4M3 byte (no infinities; 0x7F and 0xFF are NaN)."""
    sign = -1.0 if code & 0x80 else 1.0
    exponent, fraction = (code >> 3) & 0xF, code & 0x7
    if code & 0x7F == _NAN:
        return math.nan
    if exponent == 0:
        return sign * fraction * 2.0**-9
    return sign * (8 + fraction) * 2.0 ** (exponent - 10)


def _table() -> bytes:
    """Byte -> byte of the value divided by FACTOR."""
    positive = [_decode(code) for code in range(_NAN)]

    def rescaled(code: int) -> int:
        value = _decode(code)
        if math.isnan(value):
            return code
        target = abs(_bfloat16(_float32(value / _float32(FACTOR))))
        nearest = min(range(_NAN), key=lambda c: (abs(positive[c] - target), c & 1))
        return nearest | (code & 0x80)

    return bytes(rescaled(code) for code in range(256))


TABLE = _table()
