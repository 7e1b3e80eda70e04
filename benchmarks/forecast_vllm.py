"""Does real vLLM take the steps that are forecast? `.rehearsal/vllm/bin/python benchmarks/forecast_vllm.py`

Needs `make install-vllm`. vLLM runs in this process, with the pair as Llama models and as the preset rehearsal-vllm
sets it. The target answers the prompts below, greedily, and the draft reads the answers here, so that the forecast is
made. Then the target answers again with each speculation, all prompts at once, and vLLM counts the steps of each
request (`inter_token_latency_seconds_count`: one a step, whatever it yields). Status 1 if an arm is more than 2 % off,
or an answer differs.
Raw result: benchmarks/results/forecast_vllm.json.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from multiprocessing import get_context
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "lambda")]

from specdecode.experiment import load_engine  # noqa: E402
from specdecode.experiment.most_tokens import MostTokens  # noqa: E402
from specdecode.forecast.answers import WrittenAnswer, WrittenAnswers  # noqa: E402
from specdecode.forecast.local import LocalReader  # noqa: E402
from specdecode.forecast.making import forecast  # noqa: E402

from rehearsal.tools import LLAMA  # noqa: E402

OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}
os.environ.update({**OFFLINE, **load_engine("rehearsal-vllm").env, "VLLM_ENABLE_V1_MULTIPROCESSING": "0"})

from vllm import LLM, SamplingParams, __version__  # noqa: E402

TARGET, DRAFT = str(LLAMA / "pair-target-llama"), str(LLAMA / "pair-draft-llama")
TOKENS, WINDOW, MOST_OFF = 72, 1024, 0.02
ARMS = [("draft", 1), ("draft", 3), ("draft", 5), ("draft", 7), ("n-gram", 5), ("n-gram", 7)]
COUNTED = ("inter_token_latency_seconds", "spec_decode_num_drafts", "spec_decode_num_accepted_tokens")
PROMPTS = {
    "repeat: kettle": "Repeat this line 12 times:\nThe green kettle sings in the kitchen at noon.\n"
    "The green kettle sings in the kitchen at noon.\n",
    "repeat: words": "Repeat good morning 30 times:\ngood morning good morning good",
    "count: from 30": "Count from 30 to 120:\n30, 31, 32, 33,",
    "count: by tens": "Count by tens:\n10\n20\n30\n40\n50",
    "json: sensors": 'Write 15 JSON records, one per line:\n{"id": 1, "sensor": "s1", "unit": "C", "ok": true}\n'
    '{"id": 2, "sensor": "s2", "unit": "C", "ok": true}',
    "json: nested": '{"order": {"number": 7, "items": [{"name": "pen", "price": 2},',
    "csv: towns": "name,town,age\nanna1,Rome,21\nanna2,Rome,22\nanna3,Rome,23",
    "list: chairs": "List:\n1. chair 1 is blue\n2. chair 2 is blue\n3. chair 3 is blue",
    "list: shopping": "What to buy this week:\n- milk\n- eggs\n- soap\n-",
    "code: halves": "Write Python functions:\n\ndef half_1(x):\n    return x / 2\n\ndef half_2(x):\n    return x / 2",
    "code: loop": "for line in open(path):\n    if line.startswith('#'):\n        continue\n   ",
    "story: train": "Write a story:\nThe last train left the station at night, and the boy with the red bag",
    "explain: shadows": "Explain shadows in simple words.\nA shadow is",
    "docs: sockets": "Wait until the socket can be read. If a timeout is given and nothing arrives before it ends,",
    "letter: roof": "Dear neighbour,\nI am writing to you because the roof of the old barn",
    "dialogue: shop": '"How much is the lamp?" asked the woman. "Nine coins," said the man.',
}


def answered(method=None, k=0):
    """Ids and texts of the target's answers to all prompts at once, the steps of each, and vLLM's counters."""
    lookup = {"method": "ngram", "num_speculative_tokens": k}
    drafted = {"method": "draft_model", "model": DRAFT, "max_model_len": WINDOW, "num_speculative_tokens": k}
    model = LLM(
        TARGET, dtype="float32", enforce_eager=True, enable_prefix_caching=False, max_model_len=WINDOW,
        max_num_seqs=len(PROMPTS), disable_log_stats=False,
        speculative_config={"draft": drafted, "n-gram": lookup}.get(method),
    )  # fmt: skip
    engine, replies, steps = model.llm_engine, {}, dict.fromkeys(PROMPTS, -1)
    for name, prompt in PROMPTS.items():
        engine.add_request(name, prompt, SamplingParams(temperature=0, max_tokens=TOKENS))
    while engine.has_unfinished_requests():
        for reply in engine.step():
            replies[reply.request_id] = reply
            steps[reply.request_id] += 1
    found = {metric.name.removeprefix("vllm:"): metric for metric in model.get_metrics()}
    counters = [getattr(one, "count", getattr(one, "value", 0)) for one in map(found.get, COUNTED)]
    ids = {name: (tuple(reply.prompt_token_ids), tuple(reply.outputs[0].token_ids)) for name, reply in replies.items()}
    return ids, {name: reply.outputs[0].text for name, reply in replies.items()}, steps, counters


def told(ids, texts):
    """Steps of the forecast, by draft, k and prompt."""
    answers = [
        WrittenAnswer(category=name, prompt=prompt, text=texts[name], prompt_ids=ids[name][0], answer_ids=ids[name][1])
        for name, prompt in PROMPTS.items()
    ]
    found = asyncio.run(
        forecast(
            WrittenAnswers(found=tuple(answers)), [LocalReader("draft", DRAFT)], ks=sorted({k for _, k in ARMS}),
            most=MostTokens.K_PLUS_1, progress=lambda *_: None,
        )
    )  # fmt: skip
    return {(of.draft, at.k, one.category): at.steps for of in found.drafts for one in of.categories for at in one.at}


def main() -> int:
    with get_context("fork").Pool(1, maxtasksperchild=1) as pool:
        ids, texts, steps, (counted, *_) = pool.apply(answered)
        tokens = sum(len(answer) for _, answer in ids.values())
        assert counted == sum(steps.values()) == tokens - len(PROMPTS), "a step without speculation is a token"
        expected, arms = pool.apply(told, (ids, texts)), []
        for method, k in ARMS:
            own, _, steps, (counted, drafts, accepted) = pool.apply(answered, (method, k))
            total = sum(expected[method, k, name] for name in PROMPTS)
            same = sum(own[name] == ids[name] for name in PROMPTS)
            arm = {"method": method, "k": k, "forecast": total, "counted": counted, "with_a_draft": drafts}
            arm |= {"accepted": accepted, "off": total / counted - 1, "same_answers": same}
            arms.append(arm | {"prompts_off": [name for name in PROMPTS if expected[method, k, name] != steps[name]]})
            print(arms[-1], flush=True)
            result = {"vllm": __version__, "tokens": tokens, "answers": len(PROMPTS), "arms": arms}
            (ROOT / "benchmarks" / "results" / "forecast_vllm.json").write_text(json.dumps(result, indent=1) + "\n")
    return int(any(abs(arm["off"]) > MOST_OFF or arm["same_answers"] < len(PROMPTS) for arm in arms))


if __name__ == "__main__":
    sys.exit(main())
