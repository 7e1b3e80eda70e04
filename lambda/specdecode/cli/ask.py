"""`specdecode ask`: a question to an arm that a run holds, through the bucket."""

from typing import Annotated

import typer

from specdecode import s3_keys
from specdecode.cli.options import WHERE, AsJson, Where
from specdecode.cli.output import EXIT_FAILED, complain, say, say_json, stop_with

LOOK_S = 0.3
"""Seconds between two looks for the next part of an answer."""
HELD_S = 10.0
"""Seconds without a part after which it looks whether the run still holds the arm."""


def ask(
    run_id: Annotated[str, typer.Argument(metavar="RUN", help="A run that holds its arms (`run --hold 30m`).")],
    arm: Annotated[str | None, typer.Argument(metavar="ARM", help="Name of the arm.")] = None,
    prompt: Annotated[str | None, typer.Argument(metavar="PROMPT", help="What to ask; 64 KiB at most.")] = None,
    max_tokens: Annotated[int, typer.Option(min=1, max=4096, help="Most tokens of the answer.")] = 100,
    temperature: Annotated[float, typer.Option(min=0, max=2, help="0 is greedy, as it is measured.")] = 0.0,
    end: Annotated[bool, typer.Option("--end", help="Ask nothing: end the hold now, and save the rest of it.")] = False,
    where: Where = WHERE,
    as_json: AsJson = False,
) -> None:
    """Ask an arm of a run that holds its arms, and show the answer while it comes.

    The question goes through the bucket to a pod beside the servers, and the answer comes back in parts: it is a stream
    to read, and its times measure nothing. Question and answer are deleted, and old versions forgotten after a day.
    Your AWS identity needs s3:PutObject, s3:GetObject and s3:DeleteObject on asks/RUN/ in the bucket.
    """
    import secrets
    import time

    from specdecode.records.asks import MOST_BYTES, AskPart, AskQuestion
    from specdecode.store import NotDeleted

    deployment = where.deployment()

    def held() -> tuple[str, ...]:
        state = deployment.state(run_id)
        return state.answering if state and deployment.execution(run_id).status == "RUNNING" else ()

    if not (arms := held()):
        how = "`specdecode run PRESET --hold 30m` keeps arms after their last benchmark"
        raise stop_with(f"{run_id} holds no arms now (`specdecode status {run_id}`): {how}")
    store, prefix = deployment.store, s3_keys.asks_prefix(run_id)
    if end:
        store.write(prefix + s3_keys.END, "{}")
        say(f"{run_id} stops its arms soon, and goes on")
        return
    if arm not in arms or not prompt:
        raise stop_with(f'say which arm, and what: specdecode ask {run_id} {arms[0]} "What is machine learning?" '
                        f"(held now: {', '.join(arms)})")  # fmt: skip
    plan = deployment.plan(run_id)
    if temperature and plan and plan.engine.greedy_only and plan.experiment.variant(arm).speculation:
        complain(f"{arm} ignores the temperature: {plan.engine.greedy_because}")
        temperature = 0.0
    document = AskQuestion(arm=arm, prompt=prompt, max_tokens=max_tokens, temperature=temperature).model_dump_json()
    if len(document.encode()) > MOST_BYTES:
        raise stop_with(f"a question has at most {MOST_BYTES // 1024} KiB")
    folder = f"{prefix}{secrets.token_hex(8)}/"
    keys = [folder + s3_keys.QUESTION]
    store.write(keys[0], document)
    texts, waited, part = list[str](), 0.0, AskPart()
    try:
        while not part.done:
            following = s3_keys.part_key(folder, len(texts))
            if (data := store.read(following)) is None:
                waited += LOOK_S
                if waited >= HELD_S and arm not in held():
                    part = AskPart(done=True, error=f"{run_id} holds its arms no longer")
                waited %= HELD_S
                time.sleep(LOOK_S)
                continue
            part = AskPart.model_validate_json(data)
            keys.append(following)
            texts.append(part.text)
            if not as_json:
                say(part.text, end="")
    except KeyboardInterrupt:
        raise stop_with("", 130) from None
    finally:
        try:
            store.delete(keys)
        except NotDeleted as error:
            complain(f"the bucket forgets it after a day: {error}")
    if as_json:
        say_json({"run_id": run_id, "arm": arm, "text": "".join(texts), **part.model_dump(exclude={"text", "done"})})
    elif not part.error:
        say("")
        complain(f"{arm}: {part.tokens or 'uncounted'} tokens, ended by {part.finish_reason}")
    if part.error:
        raise stop_with(f"\nthe answer broke off: {part.error}", EXIT_FAILED)
