"""Model folders as Hugging Face lays them out: `python -m rehearsal.upstream.folders WEIGHTS DESTINATION`."""

import argparse
import json
from pathlib import Path
from typing import Any

from safetensors.numpy import load_file, save_file

from rehearsal.engine.config import ModelFolder, read_model_folder
from rehearsal.upstream.llama import llama_config, llama_weights

CHAT_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}{{ message['content'] }}"
    "{% if not message['content'].endswith('\\n') %}{{ '\\n' }}{% endif %}{% endfor %}"
)
"""Chat template of the embedded engine: the messages' texts in order, each with a line break at its end."""


def write_llama(source: ModelFolder, destination: Path) -> None:
    """Write `source`, a model of the embedded architecture, as a folder that transformers and vLLM load."""
    destination.mkdir(parents=True, exist_ok=True)
    tokenizer = json.loads(source.tokenizer.read_text())
    begin = next(item["content"] for item in tokenizer["added_tokens"] if item["id"] == source.config.bos_token_id)
    weights = llama_weights(source.config, load_file(source.weights))
    save_file(weights, destination / "model.safetensors", metadata={"format": "pt"})
    documents = {
        "config.json": llama_config(source.config),
        "tokenizer.json": {**tokenizer, "post_processor": _beginning_with(begin, source.config.bos_token_id)},
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "bos_token": begin,
            "eos_token": begin,
            "clean_up_tokenization_spaces": False,
            "model_max_length": source.config.max_position_embeddings,
            "chat_template": CHAT_TEMPLATE,
        },
    }
    for name, document in documents.items():
        (destination / name).write_text(json.dumps(document, ensure_ascii=False, indent=1) + "\n")


def _beginning_with(token: str, token_id: int) -> dict[str, Any]:
    """Post-processor of tokenizer.json that puts `token` before every text, as the embedded engine does."""
    begin = {"SpecialToken": {"id": token, "type_id": 0}}
    text, second = ({"Sequence": {"id": name, "type_id": 0}} for name in "AB")
    return {
        "type": "TemplateProcessing",
        "single": [begin, text],
        "pair": [begin, text, begin, second],
        "special_tokens": {token: {"id": token, "ids": [token_id], "tokens": [token]}},
    }


def main() -> None:
    """Write every model below WEIGHTS as DESTINATION/<name>-llama."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("weights", type=Path)
    parser.add_argument("destination", type=Path)
    given = parser.parse_args()
    for path in sorted(path.parent for path in given.weights.glob("*/config.json")):
        write_llama(read_model_folder(path), given.destination / f"{path.name}-llama")


if __name__ == "__main__":
    main()
