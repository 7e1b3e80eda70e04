"""How many tokens a text has at least, at most and about, whatever the tokenizer."""

import re
import unicodedata

_BETWEEN = re.compile(r"[ \t\r\n]+")
CHARACTERS_PER_TOKEN = 4.0
"""Characters of a token of English text, with a vocabulary of 32,000 to 150,000 tokens."""
TOKENS_PER_WIDE = 0.6
"""Tokens of a Chinese character (api-docs.deepseek.com/quick_start/token_usage); Japanese and Korean ones are near."""
_LETTER_OR_DIGIT = re.compile(r"[^\W_]")


def fewest_tokens(text: str) -> int:
    """Words of `text`: parts between spaces, tabs and line breaks that hold a letter or a digit. Never above the truth.

    Every word makes at least one token of its own, because no token holds letters of two words:

    - Byte-level BPE (GPT-2, Qwen2/3, Llama 3, gpt-oss) cuts a text by a regular expression first and merges within the
      pieces only; each of those expressions allows white space at the beginning of a piece with letters or digits,
      never after one (`tokenizer.json`, `pre_tokenizer`; the expressions and where they are published stand in
      tests/specdecode/prompts/test_bound.py).
    - SentencePiece (Llama 2, Mistral, Gemma) trains with `split_by_whitespace`, its default: no piece has a space
      within it (`sentencepiece_model.proto`, field 22 of TrainerSpec).

    The chat template only adds. For texts without spaces (Chinese, Japanese) the bound is far too low, on purpose:
    the server finds what this one lets pass, since the longest prompt is sent to it once before anything is measured.
    """
    return sum(1 for word in _BETWEEN.split(text) if _LETTER_OR_DIGIT.search(word))


def about_tokens(text: str) -> float:
    """An estimate, for people and prices, by TOKENS_PER_WIDE (Chinese, Japanese, Korean) and CHARACTERS_PER_TOKEN."""
    wide = 0 if text.isascii() else sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    return wide * TOKENS_PER_WIDE + (len(text) - wide) / CHARACTERS_PER_TOKEN


def most_tokens(text: str) -> int:
    """Bytes of `text`, and one. Never below the truth: the smallest token is a byte. Byte-level BPE begins with the
    bytes and merges them; SentencePiece with `byte_fallback` (Llama 2, Mistral, Gemma) falls back to them, and may put
    a space before the text (`add_dummy_prefix`). Some tokenizers normalize first: the longest form counts.
    """
    return 1 + max(len(form.encode()) for form in (text, *(unicodedata.normalize(f, text) for f in ("NFD", "NFKD"))))
