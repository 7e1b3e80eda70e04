"""Open-ended documents: sentences drawn from templates whose slots are filled from lists of words."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path

from rehearsal.engine.training.document import TrainingText

_TEMPLATES = json.loads((Path(__file__).parent / "templates.json").read_text())
WORDS: dict[str, list[str]] = _TEMPLATES["words"]
"""Slot -> words that fill it."""


def story(r: random.Random, _: bool) -> TrainingText:
    """A few sentences about two people and a thing."""
    hero, friend = r.sample(WORDS["name"], 2)
    fixed = {"hero": hero, "friend": friend, "thing": r.choice(WORDS["object"])}
    adjective = r.choice(WORDS["adjective"])
    article = "an" if adjective[0] in "aeiou" else "a"
    first = f"Once upon a time, in a small {{place}}, there lived {article} {adjective} {{role}} named {hero}."
    templates = [first, *(r.choice(_TEMPLATES["story"]) for _ in range(r.randint(6, 18)))]
    text = " ".join(_fill(r, template, fixed) for template in templates)
    return TrainingText(prompt=r.choice(["", "Write a short story.\n"]), continuation=text + "\n", ends=True)


def sonnet(r: random.Random, _: bool) -> TrainingText:
    """Lines in the manner of the sonnets."""
    text = "\n".join(_fill(r, r.choice(_TEMPLATES["sonnet"]), {}) for _ in range(r.randint(8, 20)))
    prompt = r.choice(["Write a sonnet:\n", "Write a poem about love.\n"])
    return TrainingText(prompt=prompt, continuation=text + "\n", ends=True)


def explain(r: random.Random, _: bool) -> TrainingText:
    """Plain statements about a subject."""
    subject = r.choice(WORDS["topic"])
    first = f"{subject.capitalize()} is an important part of our life."
    templates = [first, *(r.choice(_TEMPLATES["explain"]) for _ in range(r.randint(6, 14)))]
    text = " ".join(_fill(r, template, {"subject": subject}) for template in templates)
    return TrainingText(prompt=f"Explain {subject} in simple words.\n", continuation=text + "\n", ends=True)


def in_words(number: int) -> str:
    """A number from 1 to 99 in words."""
    if number < 20:
        return WORDS["number"][number - 1]
    ten = WORDS["tens"][number // 10 - 2]
    return ten if number % 10 == 0 else f"{ten}-{WORDS['number'][number % 10 - 1]}"


def _fill(r: random.Random, template: str, fixed: dict[str, str]) -> str:
    return re.sub(r"\{(\w+)\}", lambda slot: fixed.get(slot[1]) or r.choice(WORDS[slot[1]]), template)
