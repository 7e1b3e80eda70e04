"""A token that is pasted by mistake is refused before it is stored, and no message repeats it."""

import pytest
import yaml
from specdecode.assets import assets_dir
from specdecode.experiment import ExperimentError, credentials, from_document, load_preset, preset_names

from tests.canaries import CANARIES, HUGGING_FACE, WORD

PLACES = {
    "title": lambda text: {"title": text},
    "description": lambda text: {"description": f"with {text} in it"},
    "serving.env.NAME": lambda text: {"serving": {"env": {"NAME": text}}},
    "serving.extra_args.1": lambda text: {"serving": {"extra_args": ["--x", text]}},
    "serving.neuron_config.a.b": lambda text: {"serving": {"neuron_config": {"a": {"b": text}}}},
    "nonsense": lambda text: {"nonsense": text},
    "…": lambda text: {text: 1},
}


def refusal(document, **options):
    with pytest.raises(ExperimentError) as caught:
        from_document({"extends": "rehearsal"} | document, **options)
    assert WORD not in str(caught.value)
    assert {problem.rule for problem in caught.value.problems} == {"no-secret"}
    return {
        (problem.field, problem.message.removeprefix("holds what looks like ")) for problem in caught.value.problems
    }


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", CANARIES)
def test_a_credential_in_an_experiment_is_refused(kind, place):
    if kind == "an option that takes a secret" and place == "description":
        return
    assert refusal(PLACES[place](CANARIES[kind])) == {(place, kind)}


def test_every_kind_has_a_canary():
    assert set(CANARIES) == set(credentials.KINDS)


def test_overrides_are_looked_at_too():
    kind = "a Hugging Face token"
    assert refusal({}, overrides={"title": HUGGING_FACE}) == {("title", kind)}
    assert refusal({}, overrides={HUGGING_FACE: 1}) == {("…", kind)}
    assert refusal({}, overrides={"serving.env.HF_TOKEN": "x"}) == {("serving.env.HF_TOKEN", "the value of a secret")}


@pytest.mark.parametrize("name", ["HF_TOKEN", "VLLM_API_KEY", "openai_apikey", "AWS_SECRET_ACCESS_KEY", "PASSWORD"])
def test_a_variable_that_is_named_as_a_secret_has_no_value_here(name):
    assert refusal({"serving": {"env": {name: "anything"}}}) == {(f"serving.env.{name}", "the value of a secret")}


def test_all_that_ships_is_taken():
    for name in preset_names():
        load_preset(name)
    for path in assets_dir().rglob("*.yaml"):
        for document in yaml.safe_load_all(path.read_text()):
            assert list(credentials.found(document)) == [], path


@pytest.mark.parametrize(
    "text",
    [
        "Qwen/Qwen3-0.6B", "sk-k7", "hf_transfer", "hf_hub_download", "NEURON_RT_TOKENIZER",
        "https://huggingface.co/a/b@main", "http://host:8000/v1", "b" * 64, "--tokenizer=x", "AKIA",
    ],
)  # fmt: skip
def test_what_only_resembles_one_is_taken(text):
    assert list(credentials.found({"title": text, "env": {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "0"}})) == []
