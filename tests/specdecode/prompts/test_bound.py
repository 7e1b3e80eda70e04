"""The lower bound of tokens is below the truth for the tokenizers of the models that engines serve."""

import unicodedata
from pathlib import Path

import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st
from specdecode.prompts import about_tokens, fewest_tokens, most_tokens, read_set

from rehearsal.engine.tokenizer import Tokenizer

ROOT = Path(__file__).resolve().parents[3]
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN = LLAMA3.replace("{1,3}", "")
GPT_OSS = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
"""As their owners publish them. gpt2: openai/tiktoken, tiktoken_ext/openai_public.py (`pat_str` of gpt2), and gpt-oss
there (o200k_base); llama3: meta-llama/llama-models, models/llama3/tokenizer.py (`pat_str`); qwen: transformers,
models/qwen2/tokenization_qwen2.py (PRETOKENIZE_REGEX; Qwen3's is the same), which normalizes to NFC first."""
QWEN35 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
"""Qwen/Qwen3.5-9B, tokenizer_config.json, `pretokenize_regex`: marks count as letters."""
SENTENCEPIECE = r"\s*\S+|\s+"
"""A piece may begin with white space and has none within it: the fewest that SentencePiece can make."""
PIECES = {
    "gpt2": GPT2, "llama3": LLAMA3, "qwen": QWEN, "qwen3.5": QWEN35, "gpt-oss": GPT_OSS,
    "sentencepiece": SENTENCEPIECE,
}  # fmt: skip
ALPHABET = "aZ9é中あ١²'s_-./#\u0301\u00a0\u3000\x1c\x85 \t\n\r"


@pytest.mark.parametrize("pattern", PIECES.values(), ids=PIECES)
@settings(max_examples=100, derandomize=True)
@given(text=st.text(st.sampled_from(ALPHABET) | st.characters(codec="utf-8"), max_size=40))
def test_no_tokenizer_makes_fewer(pattern: str, text: str) -> None:
    """Merges stay within the pieces of these expressions: there are at least as many tokens as pieces."""
    assert fewest_tokens(text) <= len(regex.findall(pattern, text))


def test_the_pairs_own_tokenizer_and_every_prompt_that_ships() -> None:
    tokenizer = Tokenizer(ROOT / "rehearsal/engine/weights/pair-target/tokenizer.json")
    for path in (ROOT / "assets/prompts/sets").glob("*.jsonl"):
        for row in read_set(path.read_bytes(), name=path.stem).rows:
            assert row.fewest_tokens <= len(tokenizer.encode(row.text)), row.id


def test_the_estimate_knows_wide_characters() -> None:
    assert about_tokens("word" * 10) == 10
    assert about_tokens("这是一个提示词例子啊") == pytest.approx(6)
    assert about_tokens("これ ok.") == pytest.approx(2 * 0.6 + 1)
    assert about_tokens("éééé") == 1
    assert fewest_tokens("one two, three\nfour - 5 ... six_7") == 6
    assert fewest_tokens("word " * 5600) == 5600
    assert fewest_tokens("." * 200_000) == 0


@settings(max_examples=100, derandomize=True)
@given(text=st.text(st.sampled_from(ALPHABET + "ﷺ가é") | st.characters(codec="utf-8"), max_size=40))
def test_no_tokenizer_makes_more_than_bytes_of_what_it_normalized(text: str) -> None:
    for form in ("NFC", "NFD", "NFKC", "NFKD"):
        assert len(unicodedata.normalize(form, text).encode()) < most_tokens(text)
    assert fewest_tokens(text) <= most_tokens(text)
