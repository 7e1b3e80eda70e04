import base64
import zipfile

import pytest

from tests.canaries import HUGGING_FACE, files, traces


@pytest.mark.parametrize("before", [b"", b"x", b"xy", b"xyz"])
@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode, bytes])
def test_a_secret_is_found_in_every_form(before, encode):
    assert traces(HUGGING_FACE, {"leak": encode(before + HUGGING_FACE.encode() + b"after"), "clean": b"hf_"}) == [
        "leak"
    ]
    assert traces("a/b+c" * 5, {"url": b"https://host/?key=" + b"a%2Fb%2Bc" * 5}) == ["url"]


def test_zips_are_looked_into(tmp_path):
    with zipfile.ZipFile(tmp_path / "asset.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("inner.txt", HUGGING_FACE)
    assert traces(HUGGING_FACE, files(tmp_path)) == ["asset.zip:inner.txt"]
