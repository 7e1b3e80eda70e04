"""Speculation changes the speed only: the tokens are the same and counted right, with any k and any other requests."""

from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from rehearsal.engine.sequence import Sampling, Sequence, StepOutput
from rehearsal.engine.start_up import Engine, load_engine
from rehearsal.engine.tokenizer import TextStream

from .conftest import SETTINGS, samples, speculating

PROMPTS = (
    "Repeat the following line exactly 20 times:\nThe quick brown fox jumps over the lazy dog\n\n",
    "Count from 1 to 200:\n1\n2\n3\n",
    'Write 20 JSON records, one per line:\n{"id": 1, "name": "user1", "role": "admin", "active": true}\n',
    "Write a short story.\nOnce upon a time, in a small village by the sea, there lived",
    "Return a new list of the items for which the function is true. If the argument is",
)


@dataclass
class Output:
    tokens: list[int] = field(default_factory=list)
    text: str = ""
    steps: list[StepOutput] = field(default_factory=list)


def generate(engine: Engine, prompts: tuple[str, ...], *, together: bool = True, **sampling: object) -> list[Output]:
    outputs: dict[Sequence, Output] = {}
    for prompt in prompts:
        outputs[added(engine, prompt, **sampling)] = Output()
        if not together:
            _run(engine, outputs)
    _run(engine, outputs)
    return list(outputs.values())


def added(engine: Engine, prompt: str, **sampling: object) -> Sequence:
    """A request that the engine has taken."""
    ids, pending = engine.tokenizer.encode_prompt(prompt)
    sequence = Sequence(
        prompt_tokens=len(ids) + 1,
        tokens=[engine.bos, *ids],
        sampling=Sampling(**({"max_tokens": 48, "ignore_eos": True} | sampling)),
        text=TextStream(tokenizer=engine.tokenizer, stop=sampling.get("stop", ()), skip_prefix=pending),
        eos=engine.eos,
    )
    engine.scheduler.add(sequence)
    return sequence


def _run(engine: Engine, outputs: dict[Sequence, Output]) -> None:
    while not engine.scheduler.idle:
        for sequence, step in engine.scheduler.step():
            output = outputs[sequence]
            output.tokens += step.tokens
            output.text += step.text
            output.steps.append(step)


def counters(engine: Engine) -> dict[str, float]:
    return samples(engine.metrics.render().decode())


@pytest.fixture(scope="module")
def plain(base: Engine) -> list[Output]:
    return generate(base, PROMPTS, together=False)


@pytest.mark.parametrize("k", [1, 7])
def test_speculation_gives_the_same_tokens(plain: list[Output], k: int) -> None:
    outputs = generate(load_engine(speculating(k)), PROMPTS, together=False)
    assert [output.tokens for output in outputs] == [output.tokens for output in plain]
    assert [output.text for output in outputs] == [output.text for output in plain]
    assert max(len(step.tokens) for output in outputs for step in output.steps) == k + 1


@pytest.mark.parametrize("k", [7])
def test_an_engine_that_verifies_one_draft_less_gives_the_same_tokens_k_at_most_a_step(
    plain: list[Output], k: int
) -> None:
    """As NxD Inference's fused speculation: the draft runs k times, k - 1 of its tokens are verified."""
    engine = load_engine(speculating(k, verifies_all=False))
    outputs = generate(engine, PROMPTS, together=False)
    assert [output.tokens for output in outputs] == [output.tokens for output in plain]
    assert max(len(step.tokens) for output in outputs for step in output.steps) == k
    counted = counters(engine)
    assert {value for name, value in counted.items() if "spec_decode" in name and "created" not in name} == {0.0}


def test_a_draft_that_learnt_nothing_is_refused_and_costs_time(plain: list[Output], random_draft: Path) -> None:
    def steps(outputs: list[Output]) -> int:
        return sum(len(output.steps) for output in outputs)

    useless, trained = load_engine(speculating(7, draft=random_draft)), load_engine(speculating(7))
    outputs = generate(useless, PROMPTS[1:3], together=False)
    counted = counters(useless)
    acceptance = counted["spec_decode_num_accepted_tokens_total"] / counted["spec_decode_num_draft_tokens_total"]
    assert [output.text for output in outputs] == [output.text for output in plain[1:3]]
    assert acceptance < 0.05
    assert steps(outputs) > 0.9 * steps(plain[1:3])
    assert counted["spec_decode_num_draft_tokens_total"] > 6 * steps(outputs), "which the draft model made for nothing"
    assert steps(generate(trained, PROMPTS[1:3], together=False)) < 0.5 * steps(plain[1:3])


def test_a_request_joins_and_leaves_a_running_batch(plain: list[Output]) -> None:
    engine = load_engine(speculating(5))
    first = added(engine, PROMPTS[0])
    collected: dict[Sequence, list[int]] = {first: []}
    for step in range(1000):
        if step == 4:
            second = added(engine, PROMPTS[1], max_tokens=20)
            collected[second] = []
        for sequence, output in engine.scheduler.step():
            collected[sequence] += output.tokens
        if engine.scheduler.idle:
            break
    assert collected[first] == plain[0].tokens
    assert collected[second] == plain[1].tokens[:20]


def test_an_aborted_request_frees_its_place(base: Engine) -> None:
    sequences = [added(base, PROMPTS[0], max_tokens=50) for _ in range(6)]
    base.scheduler.step()
    for sequence in (sequences[0], sequences[5]):  # one runs, one waits
        base.scheduler.abort(sequence)
    advanced = {sequence for sequence, _ in base.scheduler.step()}
    assert advanced == set(sequences[1:5])
    for sequence in sequences:
        base.scheduler.abort(sequence)
    assert base.scheduler.idle


def test_nothing_is_drafted_beyond_the_draft_window(plain: list[Output]) -> None:
    settings = speculating(5)
    short = load_engine(replace(settings, speculative=replace(settings.speculative, max_model_len=40)))
    outputs = generate(short, PROMPTS[1:2])
    assert outputs[0].tokens == plain[1].tokens
    position, late = 0, []
    prompt = len(short.tokenizer.encode_prompt(PROMPTS[1])[0]) + 1
    for step in outputs[0].steps:
        if prompt + position >= 40:
            late.append(len(step.tokens))
        position += len(step.tokens)
    assert len(late) > 20
    assert set(late) == {1}


def test_the_end_token_ends_and_min_tokens_holds_it_off(plain: list[Output]) -> None:
    for engine in (load_engine(SETTINGS), load_engine(speculating(7))):
        end = plain[1].tokens[11]  # any token of the output can stand for the end
        first = plain[1].tokens.index(end)
        ending = replace(engine, eos=end)
        ended = generate(ending, PROMPTS[1:2], ignore_eos=False)[0]
        assert ended.tokens == plain[1].tokens[: first + 1]
        assert ended.steps[-1].finish_reason == "stop"
        held_off = generate(ending, PROMPTS[1:2], ignore_eos=False, min_tokens=30)[0]
        assert end not in held_off.tokens[:30]
        assert len(held_off.tokens) >= 30
