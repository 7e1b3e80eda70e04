"""Rescaling FP8: byte for byte what PyTorch makes of the Neuron guide's recipe, in place, in a safetensors file."""

import array
import hashlib
import json
import struct
from pathlib import Path

import pytest
from specdecode.exit_codes import Exit
from specdecode.pod.bucket import Bucket
from specdecode.pod.fp8 import FACTOR, TABLE, rescale_file
from specdecode.pod.program import PodError
from specdecode.pod.sources import ImportSource
from specdecode.pod.stage import stage

from tests.specdecode.steps.aws_fake import FakeS3

TORCH_TABLE_SHA256 = "e4ea0ac75d4cd9d53406fbedcff7663ce7245fb32a8eb0f536e4485dac1c0ce2"
"""SHA-256 of what torch 2.13 gives for the 254 bytes that are no NaN (0x7F, 0xFF), in
`(torch.arange(256, dtype=torch.uint8).view(torch.float8_e4m3fn).bfloat16() / (448 / 240)).to(torch.float8_e4m3fn)`.
Its scales were compared too: 10,000 random ones, equal bit for bit."""


def value(code: int) -> float:
    exponent, fraction = (code >> 3) & 15, code & 7
    return (-1 if code & 128 else 1) * (fraction / 512 if exponent == 0 else (8 + fraction) * 2.0 ** (exponent - 10))


def test_table_is_torchs():
    numbers = bytes(TABLE[code] for code in range(256) if code & 127 != 127)
    assert hashlib.sha256(numbers).hexdigest() == TORCH_TABLE_SHA256


def test_nothing_leaves_neurons_range_and_signs_stay():
    for code in range(256):
        if code & 127 == 127:
            assert TABLE[code] == code, "NaN stays NaN"
            continue
        assert abs(value(TABLE[code])) <= 240
        assert (TABLE[code] ^ code) & 128 == 0
        assert value(TABLE[code]) == pytest.approx(value(code) / FACTOR, rel=1 / 14, abs=2**-9)
    assert value(TABLE[0x7E]) == 240


def safetensors(path: Path, tensors: dict[str, tuple[str, bytes]]) -> bytes:
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, (dtype, raw) in tensors.items():
        header[name] = {"dtype": dtype, "shape": [len(raw)], "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path.read_bytes()


SCALE = array.array("f", [0.5, 3.25, 1e-3]).tobytes()
GOOD = {
    "layers.0.mlp.up.weight": ("F8_E4M3", bytes(range(256))),
    "layers.0.mlp.up.weight_scale": ("F32", SCALE),
    "layers.0.attn.weight": ("BF16", bytes(range(256))),
}


def test_weights_and_scales_change_in_place_and_nothing_else_does(tmp_path):
    path = tmp_path / "m.safetensors"
    before = safetensors(path, GOOD)
    assert rescale_file(path) == 2
    after = path.read_bytes()
    start = len(before) - 256 - len(SCALE) - 256
    assert after[:start] == before[:start]
    assert after[start : start + 256] == TABLE
    scales = array.array("f", after[start + 256 : start + 256 + len(SCALE)])
    assert list(scales) == pytest.approx([x * FACTOR for x in (0.5, 3.25, 1e-3)], rel=1e-6)
    assert after[-256:] == bytes(range(256)), "bf16 stays as it is"


@pytest.mark.parametrize(
    ("tensors", "says"),
    [
        ({"a.weight": ("F8_E4M3", b"\x01")}, "no weight_scale"),
        ({"a.bias": ("F8_E4M3", b"\x01")}, "no weight_scale"),
        ({"a.weight_scale": ("F32", SCALE)}, "belongs to no FP8 weight"),
        ({"a.weight": ("BF16", b"\x01\x02"), "a.weight_scale": ("F32", SCALE)}, "belongs to no FP8 weight"),
        ({"a.weight": ("F8_E4M3", b"\x01"), "a.weight_scale": ("BF16", b"\x01\x02")}, "only F32"),
    ],
)
def test_what_does_not_fit_together_is_refused_and_left_alone(tmp_path, tensors, says):
    path = tmp_path / "m.safetensors"
    before = safetensors(path, tensors)
    with pytest.raises(PodError, match=says) as caught:
        rescale_file(path)
    assert caught.value.code == Exit.CORRUPT
    assert path.read_bytes() == before


def test_scale_in_another_file_of_the_checkpoint_is_no_error(tmp_path):
    path = tmp_path / "m.safetensors"
    safetensors(path, {"a.weight": ("F8_E4M3", b"\x7e")})
    assert rescale_file(path, names={"a.weight", "a.weight_scale"}) == 1


@pytest.mark.parametrize("data", [b"", b"1234567", b"\xff" * 8, struct.pack("<Q", 4) + b"nope"])
def test_not_a_safetensors_file(tmp_path, data):
    path = tmp_path / "m.safetensors"
    path.write_bytes(data)
    with pytest.raises(PodError, match="not a safetensors file"):
        rescale_file(path)


def test_as_a_staging_step(tmp_path, monkeypatch):
    half = {k: v for k, v in GOOD.items() if "scale" not in k}
    raw = safetensors(tmp_path / "x", half)
    rest = safetensors(tmp_path / "y", {"layers.0.mlp.up.weight_scale": ("F32", SCALE)})
    index = json.dumps({"weight_map": dict.fromkeys(GOOD, "?")}).encode()
    s3 = FakeS3({"imports/m/1.safetensors": raw, "imports/m/2.safetensors": rest,
                 "imports/m/model.safetensors.index.json": index})  # fmt: skip
    bucket, prefix = Bucket("b", s3), "models/m@v1-neuron-fp8/"
    stage(bucket, prefix, ImportSource(bucket, "imports/m/"), rescale=True)
    assert s3.objects[prefix + "1.safetensors"].endswith(TABLE + bytes(range(256)))
    assert s3.objects[prefix + "2.safetensors"] != rest
    complete = json.loads(s3.objects[prefix + "COMPLETE.json"])
    assert complete["rescaled_fp8"] is True
    assert bucket.fetch_folder(prefix, tmp_path / "got") == len(raw) + len(rest) + len(index)
    once = dict(s3.objects)
    del s3.objects[prefix + "COMPLETE.json"]
    stage(bucket, prefix, ImportSource(bucket, "imports/m/"), rescale=True)
    assert s3.objects == once, "a second try does not rescale twice"
