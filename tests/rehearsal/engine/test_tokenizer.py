import pytest
from hypothesis import given
from hypothesis import strategies as st

from rehearsal.engine.tokenizer import TextStream, Tokenizer

from .conftest import TARGET

TOKENIZER = Tokenizer(TARGET / "tokenizer.json")


def decode(ids: list[int], **options: object) -> str:
    stream = TextStream(tokenizer=TOKENIZER, **options)
    for token in ids:
        stream.push(token)
    return stream.take(final=True)


REFERENCE = {
    "Count from 1 to 200:\n1 2 3": "729 688 501 221 17 298 221 18 16 16 26 199 17 221 18 221 19",
    "don't we'll": "68 262 7 84 558 7 305",
    "  two  spaces 42": "221 678 79 221 264 80 65 485 221 20 18",
    "tab\tand\r\n\n  9": "84 387 198 390 202 199 199 261 25",
    "naïve 漢 🙂": "78 65 128 108 453 221 163 121 96 221 173 254 248 225",
    "½Ⅷ٣": "127 122 159 228 101 150 97",
    '{"id": 1, "ok": true}\n': "430 341 310 221 17 12 275 442 310 664 93 199",
    "a<|endoftext|>b": "65 0 66",
    "x\xa0y\u2003z": "88 127 255 89 159 223 226 90",
}
"""Ids that the `tokenizers` library gives for the same tokenizer.json."""


@pytest.mark.parametrize(("text", "ids"), REFERENCE.items())
def test_encodes_as_the_reference_library_does(text: str, ids: str) -> None:
    assert TOKENIZER.encode(text) == [int(token) for token in ids.split()]


@given(st.text())
def test_text_survives_encoding_and_decoding(text: str) -> None:
    assert decode(TOKENIZER.encode(text)) == text


@pytest.mark.parametrize(
    ("prompt", "continuation", "pending"),
    [
        ("hello world ", "hello", " "),
        ("a line:\n\n", "text", ""),
        ("one two", " three", ""),
        ("def f():\n    ", "pass", " "),
        ("1, ", "two", " "),
    ],
)
def test_a_prompt_is_cut_as_if_the_text_went_on(prompt: str, continuation: str, pending: str) -> None:
    ids, left_over = TOKENIZER.encode_prompt(prompt)
    assert left_over == pending
    assert TOKENIZER.encode(prompt + continuation)[: len(ids)] == ids
    assert decode(ids) + pending == prompt


def test_characters_split_over_tokens_come_whole_and_once() -> None:
    stream = TextStream(tokenizer=TOKENIZER)
    ids = TOKENIZER.encode("aß🙂é")
    pieces = []
    for token in ids:
        stream.push(token)
        pieces.append(stream.take())
    assert len(ids) > 4
    assert [piece for piece in pieces if piece] == ["a", "ß", "🙂", "é"]


def test_an_incomplete_character_at_the_end_becomes_a_replacement_character() -> None:
    stream = TextStream(tokenizer=TOKENIZER)
    stream.push(TOKENIZER.encode("🙂")[0])
    assert stream.take() == ""
    assert stream.take(final=True) == "\ufffd"


def test_what_may_become_a_stop_string_is_held_back() -> None:
    stream = TextStream(tokenizer=TOKENIZER, stop=("END",))
    sent = ""
    for character in "one EN two END three":
        for token in TOKENIZER.encode(character):
            stream.push(token)
        if stream.cut_at_stop() is not None:
            sent += stream.take(final=True, cut=True)
            break
        sent += stream.take()
    assert sent == "one EN two "


def test_the_space_that_the_prompt_brought_is_not_repeated() -> None:
    assert decode(TOKENIZER.encode(" world is round"), skip_prefix=" ") == "world is round"
    assert decode(TOKENIZER.encode("42"), skip_prefix=" ") == "42"
