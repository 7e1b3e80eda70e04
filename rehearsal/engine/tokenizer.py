"""Byte-level BPE as in GPT-2 with single digits: text to token ids, and ids back to text as they are generated."""

import codecs
import hashlib
import json
import re
import unicodedata
from functools import lru_cache
from pathlib import Path

from rehearsal.engine.errors import EngineSettingsError

_WORDS = re.compile(r"'s|'t|'re|'ve|'m|'ll|'d| ?[A-Za-z]+| ?[^\sA-Za-z0-9]+|\s+(?=[0-9])|\s+(?!\S)|\s+|[0-9]")
_CONTINUATION = "x"


class Tokenizer:
    """Tokenizer of a `tokenizer.json` (byte-level BPE, digits split one by one, as the pair's file says)."""

    def __init__(self, path: Path) -> None:
        try:
            content = path.read_bytes()
            model = json.loads(content)["model"]
            self._ids: dict[str, int] = model["vocab"]
            pairs = [tuple(merge.split(" ") if isinstance(merge, str) else merge) for merge in model["merges"]]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise EngineSettingsError(f"{path} is no byte-level BPE tokenizer: {error}") from error
        self.sha256 = hashlib.sha256(content).hexdigest()
        self._ranks = {pair: rank for rank, pair in enumerate(pairs)}
        self._special = {item["content"]: item["id"] for item in json.loads(content)["added_tokens"] if item["special"]}
        to_byte = {symbol: byte for byte, symbol in _byte_symbols().items()}
        self._bytes = [b""] * (max(self._ids.values()) + 1)
        for token, token_id in self._ids.items():
            if token not in self._special:
                self._bytes[token_id] = bytes(to_byte[symbol] for symbol in token)
        self._encode_word = lru_cache(maxsize=65536)(self._merge)

    def __len__(self) -> int:
        return len(self._bytes)

    def encode(self, text: str) -> list[int]:
        """Ids of `text`; special tokens written out in it become their ids."""
        ids: list[int] = []
        for part in re.split("(" + "|".join(map(re.escape, self._special)) + ")", text):
            if part in self._special:
                ids.append(self._special[part])
                continue
            for word in _split(part):
                ids.extend(self._encode_word(word))
        return ids

    def encode_prompt(self, text: str) -> tuple[list[int], str]:
        """Ids of a prompt as if text followed it, and the end of the prompt that is not encoded. A space before a word
        belongs to that word's token. So a prompt that ends in a space is encoded without it, and " " is returned. The
        continuation begins with that space, which must then be removed.
        """
        if not text[-1:].isspace():
            return self.encode(text), ""
        pending = " " if text.endswith(" ") else ""
        ids = self.encode(text + _CONTINUATION)
        return ids[: len(ids) - len(self.encode(pending + _CONTINUATION))], pending

    def bytes_of(self, token: int) -> bytes:
        """The bytes of `token`; empty for a special token."""
        return self._bytes[token]

    def _merge(self, word: str) -> tuple[int, ...]:
        symbols = _byte_symbols()
        parts = [symbols[byte] for byte in word.encode()]
        while len(parts) > 1:
            best = min(range(len(parts) - 1), key=lambda i: self._ranks.get((parts[i], parts[i + 1]), 1 << 30))
            if (parts[best], parts[best + 1]) not in self._ranks:
                break
            parts[best : best + 2] = [parts[best] + parts[best + 1]]
        return tuple(self._ids[part] for part in parts)


class TextStream:
    """Text of one growing token sequence. It returns complete characters only, and no text that may be part of a stop
    string.
    """

    def __init__(self, *, tokenizer: Tokenizer, stop: tuple[str, ...] = (), skip_prefix: str = "") -> None:
        self.text = ""
        self._tokenizer = tokenizer
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._stop = stop
        self._held = max((len(item) for item in stop), default=1) - 1
        self._skip_prefix = skip_prefix
        self._taken = 0

    def push(self, token: int) -> None:
        piece = self._decoder.decode(self._tokenizer.bytes_of(token))
        if self._skip_prefix and piece:
            piece = piece.removeprefix(self._skip_prefix)
            self._skip_prefix = ""
        self.text += piece

    def cut_at_stop(self) -> str | None:
        """If a stop string is in the text that was not sent yet, cut the text before it and return the string."""
        found = [(at, item) for item in self._stop if (at := self.text.find(item, self._taken)) >= 0]
        if not found:
            return None
        at, item = min(found)
        self.text = self.text[:at]
        return item

    def take(self, *, final: bool = False, cut: bool = False) -> str:
        """The text that can be sent now and was not returned before. With `final`, all of it (`cut`: it ended at a stop
        string).
        """
        if final and not cut:
            self.text += self._decoder.decode(b"", final=True)
        end = len(self.text) if final else max(self._taken, len(self.text) - self._held)
        delta, self._taken = self.text[self._taken : end], end
        return delta


def _split(text: str) -> list[str]:
    skeleton = text if text.isascii() else "".join(map(_representative, text))
    return [text[match.start() : match.end()] for match in _WORDS.finditer(skeleton)]


@lru_cache(maxsize=4096)
def _representative(character: str) -> str:
    """An ASCII character of the same class, so that the word pattern needs no Unicode tables."""
    if character.isascii():
        return character
    if character.isspace():
        return "\n"
    return {"L": "L", "N": "0"}.get(unicodedata.category(character)[0], "!")


@lru_cache(maxsize=1)
def _byte_symbols() -> dict[int, str]:
    """GPT-2's printable stand-in of each byte."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    return {byte: chr(byte) for byte in printable} | {byte: chr(256 + i) for i, byte in enumerate(others)}
