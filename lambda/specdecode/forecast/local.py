"""A draft that reads the answers on this machine, without a server: its folder or name on the Hugging Face hub, with
transformers and torch (`pip install '.[draft]'`; Apache-2.0 and BSD-3-Clause).

These two read every model as it is published, with its own tokenizer and chat template. llama.cpp and onnxruntime are
smaller, but want the weights converted first, and round otherwise than the engine that will draft.

Only weights in safetensors are read, and no code that comes with a model is run.
"""

from pathlib import Path
from typing import Any

from specdecode.escape import clip, line
from specdecode.forecast.answers import WrittenAnswer
from specdecode.forecast.server import BadServer, Tokens, bounded

SAID = 300
"""Characters of a library's message that are shown."""


class LocalReader:
    """A model of this process."""

    def __init__(self, name: str, where: str) -> None:
        """`where`: a folder, or a model's name on the hub. Raises BadServer."""
        self.name = name
        self._where = f"{name} from {where}"
        if (where[0] in "/.~" or where.count("/") > 1) and not Path(where).is_dir():
            raise BadServer(f"{self._where}: there is no such folder")
        try:
            from torch import inference_mode
            from transformers import AutoModelForCausalLM, AutoTokenizer
        except ImportError:
            raise BadServer(
                f"{self._where}: reading a draft here needs transformers and torch: pip install '.[draft]', or serve "
                "it (`vllm serve MODEL`) and give its URL"
            ) from None
        try:
            # False: without it transformers asks whether to run the model's code, and takes a yes from a pipe.
            self._tokenizer: Any = AutoTokenizer.from_pretrained(where, trust_remote_code=False)
            self._model: Any = AutoModelForCausalLM.from_pretrained(
                where, trust_remote_code=False, use_safetensors=True
            ).eval()
        except Exception as error:  # whatever the libraries raise for a folder that is no model
            said = clip(line(str(error)), SAID)
            if "trust_remote_code" in str(error):
                said = "it comes with code of its own, and no code of a model is run here: serve it and give its URL"
            raise BadServer(f"{self._where}: {said}") from None
        self._still = inference_mode

    async def tokens(self, answer: WrittenAnswer) -> Tokens:
        prompt = answer.prompt_ids or self._asked(answer)
        own = answer.answer_ids or tuple(self._tokenizer(answer.text, add_special_tokens=False)["input_ids"])
        return bounded(self._where, prompt, own)

    async def bits(self, tokens: Tokens) -> list[bool]:
        import torch

        ids, vocabulary = [*tokens.prompt, *tokens.answer], self._model.config.get_text_config().vocab_size
        if strange := [each for each in ids if each >= vocabulary]:
            raise BadServer(f"{self._where}: it has {vocabulary} tokens, and token {strange[0]} is none of them")
        try:
            with self._still():
                logits = self._model(torch.tensor([ids]), logits_to_keep=len(tokens.answer)).logits[0]
        except (RuntimeError, IndexError) as error:
            raise BadServer(f"{self._where}: {clip(line(str(error)), SAID)}") from None
        written = logits.argmax(dim=-1)[:-1].tolist()
        return [one == own for one, own in zip(written, tokens.answer[1:], strict=True)]

    def _asked(self, answer: WrittenAnswer) -> tuple[int, ...]:
        if isinstance(answer.prompt, str):
            return tuple(self._tokenizer(answer.prompt)["input_ids"])
        told = {} if answer.thinking is None else {"enable_thinking": answer.thinking}
        try:
            made = self._tokenizer.apply_chat_template(
                list(answer.prompt), add_generation_prompt=True, return_dict=True, **told
            )
        except Exception as error:  # a template may raise what it likes
            raise BadServer(f"{self._where}: {clip(line(str(error)), SAID)}") from None
        return tuple(made["input_ids"])


class TokenizerFolder:
    """The target's `tokenizer.json`, if no draft makes the tokens. It has no chat template: messages are joined."""

    def __init__(self, folder: str) -> None:
        """`folder`, or the file itself. Raises BadServer."""
        self._where = f"--tokenizer {folder}"
        path = Path(folder)
        try:
            from tokenizers import Tokenizer  # type: ignore[import-not-found,unused-ignore]
        except ImportError:
            raise BadServer("--tokenizer: the package `tokenizers` is not installed: pip install tokenizers") from None
        try:
            self._tokenizer: Any = Tokenizer.from_file(str(path / "tokenizer.json" if path.is_dir() else path))
        except Exception as error:  # tokenizers raises bare Exception
            raise BadServer(f"{self._where}: {clip(line(str(error)), SAID)}") from None

    async def tokens(self, answer: WrittenAnswer) -> Tokens:
        asked = answer.prompt
        text = asked if isinstance(asked, str) else "\n".join(str(each["content"]) for each in asked)
        prompt = answer.prompt_ids or tuple(self._tokenizer.encode(text).ids)
        own = answer.answer_ids or tuple(self._tokenizer.encode(answer.text, add_special_tokens=False).ids)
        return bounded(self._where, prompt, own)
