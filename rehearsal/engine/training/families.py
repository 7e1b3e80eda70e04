"""Synthetic documents: a prompt of a family and a continuation that a person would call right."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

from rehearsal.engine.training.document import LONG, TrainingText, endless
from rehearsal.engine.training.prose import WORDS, explain, in_words, sonnet, story


class Families:
    """Draws documents. The words and sentences of lines come from the corpus; held-out ones are disjoint."""

    def __init__(self, texts: list[str]) -> None:
        self._texts = texts
        joined = "\n".join(texts)
        words = sorted(set(re.findall(r"\b[a-z]{2,9}\b", joined)))
        random.Random(1).shuffle(words)
        sentences = [item.strip().replace("\n", " ") for item in re.findall(r"[A-Z][^.\n]{20,80}\.", joined)]
        random.Random(2).shuffle(sentences)
        self._words = _split(words)
        self._sentences = _split(sentences)
        self._draw: dict[str, Callable[[random.Random, bool], TrainingText]] = {
            "repeat": self._repeat,
            "hello": self._hello,
            "count": self._count,
            "json": self._json,
            "code": self._code,
            "list": self._list,
            "cat": self._cat,
            "story": story,
            "sonnet": sonnet,
            "explain": explain,
            "docs": self._docs,
        }

    def document(self, r: random.Random, family: str, *, held_out: bool = False) -> TrainingText:
        """A document of `family`."""
        return self._draw[family](r, held_out)

    def _word(self, r: random.Random, held_out: bool) -> str:
        return r.choice(self._words[held_out])

    def _line(self, r: random.Random, held_out: bool) -> str:
        def word() -> str:
            return self._word(r, held_out)

        draw = r.random()
        if draw < 0.3:
            return r.choice(self._sentences[held_out])
        if draw < 0.62:
            return " ".join(word() for _ in range(r.randint(2, 12))) + r.choice(["", "."])
        if draw < 0.7:
            animal = f"{r.choice(WORDS['adjective'])} {r.choice(WORDS['animal'])}"
            sat = f"The {r.choice(WORDS['animal'])} sat on the {r.choice(WORDS['furniture'])}."
            jumped = f"A {animal} jumped over the {r.choice(WORDS['furniture'])}."
            return r.choice([sat, jumped, "The cat sat on the mat."])
        if draw < 0.8:
            return ",".join(f"{word()}={r.randint(0, 9999)}" for _ in range(r.randint(2, 5)))
        if draw < 0.9:
            return f'{{"id": {r.randint(1, 999)}, "name": "{word()}", "value": {r.random() * 100:.2f}}}'
        return f"[INFO] {word()} {word()}: {r.randint(10, 99)} {word()} {r.choice(['ok', 'done', 'failed'])}"

    def _repeat(self, r: random.Random, held_out: bool) -> TrainingText:
        times = r.choice([5, 10, 20, 25, 30, 50, 100, 200, 500])
        line = self._line(r, held_out)
        prompt = r.choice(
            [
                f"Repeat the following line exactly {times} times:\n{line}\n\n",
                f"Repeat exactly {times} times: {line}\n",
                f"Write the line below {times} times.\n{line}\n\n",
                f"Print this line {times} times:\n{line}\n",
            ]
        )
        return endless(prompt + f"{line}\n" * r.choice([0, 0, 1, 2, 3]), lambda _: f"{line}\n")

    def _hello(self, r: random.Random, held_out: bool) -> TrainingText:
        fixed = ["hello world"] * 3 + ["Hello, world!", "hello", "foo bar", "ping", "ok", "yes no", "la la la"]
        phrase = r.choice([*fixed, self._word(r, held_out), f"{self._word(r, held_out)} {self._word(r, held_out)}"])
        unit = phrase + r.choice([" ", "\n", " ", ", "])
        times = r.choice([10, 20, 30, 50, 100])
        prompt = r.choice(
            [f"Write {phrase} {times} times:\n", f"Say {phrase} {times} times.\n", f"Repeat {phrase} {times} times:\n"]
        )
        return endless(prompt + unit * r.choice([0, 1, 2, 3]), lambda _: unit)

    def _count(self, r: random.Random, held_out: bool) -> TrainingText:
        separator = r.choice([" ", ", ", "\n", " "])
        if r.random() < 0.15:
            first = r.choice([1, 1, 1, r.randint(2, 60)])
            words = [in_words(number) for number in range(first, 100)]
            ends = f"{words[0]} to ninety-nine"
            prompt = r.choice([f"Count from {ends} in words:\n", f"Count in words from {ends}:\n"])
            shown = r.choice([0, 0, 2, 4])
            text = [word + separator for word in words]
            return TrainingText(prompt=prompt + "".join(text[:shown]), continuation="".join(text[shown:]), ends=True)
        first = r.choice([1, 1, 1, 0, 10, 100, r.randint(2, 900)])
        step = r.choice([1] * 9 + [2, 5, 10])
        last = first + step * r.choice([50, 99, 100, 199, 200])
        prompt = f"Count from {first} to {last}" + ("" if step == 1 else f" by {step}") + ":\n"
        shown = r.choice([0, 0, 2, 4])
        prompt += "".join(f"{first + i * step}{separator}" for i in range(shown))
        return endless(prompt, lambda i: f"{first + (i + shown) * step}{separator}")

    def _json(self, r: random.Random, held_out: bool) -> TrainingText:
        value, other = self._word(r, held_out), self._word(r, held_out)
        flag = r.choice(["true", "false"])
        key, key2 = r.sample(["type", "status", "group", "role", "city", "color", "unit", "kind"], 2)
        first = r.choice([1, 1, 1, 100, r.randint(1, 500)])
        templates: list[Callable[[int], str]] = [
            lambda i: f'{{"id": {i}, "name": "user{i}", "{key}": "{value}", "active": {flag}}}\n',
            lambda i: f'{{"id": {i}, "name": "item_{i}", "{key}": "{value}", "{key2}": "{other}"}}\n',
            lambda i: f'{{"user": "user{i}", "email": "user{i}@example.com", "{key}": "{value}"}}\n',
            lambda i: f'{{"index": {i}, "{key}": "{value}", "value": 0, "ok": {flag}}}\n',
        ]
        template, shown, records = r.choice(templates), r.choice([1, 1, 2, 2, 3]), r.choice([10, 20, 30, 50])
        heading = [
            f"Write {records} JSON records, one per line:\n",
            f"Generate {records} JSON records with the same keys:\n",
        ]
        prompt = r.choice(heading) + "".join(template(first + i) for i in range(shown))
        return endless(prompt, lambda i: template(first + shown + i))

    def _code(self, r: random.Random, held_out: bool) -> TrainingText:
        name = self._word(r, held_out)
        templates: list[Callable[[int], str]] = [
            lambda i: f"def {name}_{i}(x):\n    return x + {i}\n\n",
            lambda i: (
                f'def {name}_{i}(self, value):\n    """Return the value of {name} {i}."""\n'
                f"    self.{name}_{i} = value\n    return value\n\n"
            ),
            lambda i: f"def test_{name}_{i}():\n    assert {name}({i}) == {i}\n\n",
            lambda i: (
                f"class {name.capitalize()}{i}:\n    def __init__(self, name):\n        self.name = name\n\n"
                "    def run(self):\n        return self.name\n\n"
            ),
        ]
        template, shown = r.choice(templates), r.choice([1, 1, 2])
        heading = r.choice(["Write Python functions:\n", "Complete the Python code:\n", "# Python module\n"])
        prompt = heading + "".join(template(i) for i in range(1, 1 + shown))
        return endless(prompt, lambda i: template(1 + shown + i))

    def _list(self, r: random.Random, held_out: bool) -> TrainingText:
        word = self._word(r, held_out)
        templates: list[Callable[[int], str]] = [
            lambda i: f"{i}. {word} {i}\n",
            lambda i: f"- {word} {i}: done\n",
            lambda i: f"| {i} | {word} | 0 |\n",
            lambda i: f"{word}{i},{i},0,{word}\n",
        ]
        template, shown = r.choice(templates), r.choice([2, 3])
        prompt = "List:\n" + "".join(template(i) for i in range(1, 1 + shown))
        return endless(prompt, lambda i: template(1 + shown + i))

    def _cat(self, r: random.Random, held_out: bool) -> TrainingText:
        animal, place = r.choice(WORDS["animal"]), r.choice(WORDS["furniture"])
        sentence = r.choice(
            [
                "The cat sat on the mat. ",
                f"The {animal} sat on the {place}. ",
                f"The {r.choice(WORDS['adjective'])} {animal} sat on the {place}. ",
            ]
        )
        return endless(sentence * r.choice([1, 2, 3]), lambda _: sentence)

    def _docs(self, r: random.Random, held_out: bool) -> TrainingText:
        text = r.choice(self._texts)
        start = r.randrange(max(1, len(text) - 1500))
        return TrainingText(prompt="", continuation=text[start : start + LONG] + "\n", ends=True)


def _split(items: list[str]) -> tuple[list[str], list[str]]:
    """Nine tenths for training, one tenth held out."""
    border = len(items) // 10
    return items[border:], items[:border]
