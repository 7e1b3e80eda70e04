"""From settings to an engine that is ready to serve."""

import time
from dataclasses import dataclass

from rehearsal.engine.artifact import compile_settings, load_or_compile
from rehearsal.engine.batching import BatchScheduler
from rehearsal.engine.config import ModelFolder, ServeSettings, read_model_folder
from rehearsal.engine.errors import EngineSettingsError
from rehearsal.engine.forward import NeuralNetwork
from rehearsal.engine.generator import Generator
from rehearsal.engine.metrics import EngineMetrics
from rehearsal.engine.prompt_logprobs import TextReader
from rehearsal.engine.tokenizer import Tokenizer


@dataclass(frozen=True, kw_only=True)
class Engine:
    """The parts of a ready engine."""

    tokenizer: Tokenizer
    scheduler: BatchScheduler
    metrics: EngineMetrics
    reader: TextReader
    window: int
    """Longest sequence (prompt and output) in tokens."""
    bos: int
    eos: int
    summary: str
    """One line for the log."""
    told_drafts: int = 0
    """k if answers count their drafts; else 0."""


def load_engine(settings: ServeSettings) -> Engine:
    """Read the models, load or compile the artifacts, allocate the caches. Raises EngineSettingsError."""
    started = time.monotonic()
    folders = _model_folders(settings)
    target = folders["target"].config
    window = _window(settings, folders["target"])
    tokenizer = Tokenizer(folders["target"].tokenizer)
    if "draft" in folders and Tokenizer(folders["draft"].tokenizer).sha256 != tokenizer.sha256:
        raise EngineSettingsError(
            f"{folders['draft'].path} and {folders['target'].path} have different tokenizers: "
            "a draft model must share the target's"
        )
    for folder in folders.values():
        rows = folder.config.vocab_size
        if rows != len(tokenizer):
            raise EngineSettingsError(
                f"{folder.path} has {rows} embeddings for the {len(tokenizer)} tokens of its tokenizer"
            )
    made_for = compile_settings(settings, folders=folders, window=window)
    compiled, origin = load_or_compile(settings.artifacts, made_for=made_for, folders=folders)
    if settings.compiles_for:
        raise EngineSettingsError(f"{origin} for {settings.compiles_for}; there is no Neuron device to load it on")
    networks = {role: NeuralNetwork(folder.config, compiled[role]) for role, folder in folders.items()}
    k = settings.speculative.num_speculative_tokens if settings.speculative else 0
    metrics = EngineMetrics(model_name=settings.served_model_name, k=k, counted=settings.verifies_all)
    scheduler = BatchScheduler(
        generator=Generator(
            target=networks["target"],
            draft=networks.get("draft"),
            k=k,
            verified=k if settings.verifies_all else k - 1,
            draft_window=_draft_window(settings, folders, window),
        ),
        target=target,
        draft=folders["draft"].config if "draft" in folders else None,
        max_num_seqs=settings.max_num_seqs,
        window=window,
        metrics=metrics,
    )
    verified = "" if settings.verifies_all else f", of which {k - 1} are verified"
    speculation = f"{k} speculative tokens{verified}" if k else "no speculation"
    summary = f"{origin}; {speculation}, window {window}; ready after {time.monotonic() - started:.2f} s"
    return Engine(
        tokenizer=tokenizer,
        scheduler=scheduler,
        metrics=metrics,
        reader=TextReader(network=networks["target"], tokenizer=tokenizer),
        window=window,
        bos=target.bos_token_id,
        eos=target.eos_token_id,
        summary=summary,
        told_drafts=k if settings.tells_drafts else 0,
    )


def _model_folders(settings: ServeSettings) -> dict[str, ModelFolder]:
    folders = {"target": read_model_folder(settings.model)}
    if settings.speculative:
        folders["draft"] = read_model_folder(settings.speculative.model)
    return folders


def _window(settings: ServeSettings, target: ModelFolder) -> int:
    limit = target.config.max_position_embeddings
    window = settings.max_model_len or limit
    if window > limit:
        raise EngineSettingsError(f"--max-model-len {window} is more than the {limit} positions of {target.path}")
    return window


def _draft_window(settings: ServeSettings, folders: dict[str, ModelFolder], window: int) -> int:
    """Longest sequence for which the draft model is used."""
    if settings.speculative is None:
        return 0
    return min(settings.speculative.max_model_len or window, folders["draft"].config.max_position_embeddings)
