"""Names of Kubernetes objects and quantities: valid for every input, and distinct for distinct ones."""

import re
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st
from specdecode import names
from specdecode.experiment.variants import ModelRef, as_model_id
from specdecode.manifests.naming import object_name, service_host_variable

from rehearsal.kubernetes import quantity
from tests.fuzz.profile import fuzz, soon

NAME = st.from_regex(re.compile(r"[a-z0-9]([a-z0-9.-]{0,38}[a-z0-9])?", re.ASCII), fullmatch=True)
RUN = st.from_regex(re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}", re.ASCII), fullmatch=True)
DNS_LABEL = re.compile(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?")


@fuzz(60)
@given(RUN, st.integers(0, 999), NAME)
def test_names_are_dns_labels(run: str, wave: int, variant: str) -> None:
    for parts in ((f"w{wave}", variant), ("compile", variant), ("stage", f"Org--{variant}@main-neuron-fp8" * 3)):
        assert DNS_LABEL.fullmatch(object_name(run, *parts))
    assert re.fullmatch(r"[A-Z][A-Z0-9_]*", service_host_variable(object_name(run, f"w{wave}", variant)))


@fuzz(15)
@given(st.sets(st.tuples(RUN, NAME), max_size=30), st.integers(0, 9))
def test_distinct_arms_have_distinct_names(arms: set[tuple[str, str]], wave: int) -> None:
    assert len({object_name(run, f"w{wave}", variant) for run, variant in arms}) == len(arms)
    runs = {run for run, _ in arms}
    assert len({names.run_label(run) for run in runs}) == len(runs)


@fuzz(60)
@given(
    st.text(max_size=12)
    | st.from_regex(r"[+-]?[0-9.]{0,6}([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]{0,9})?", fullmatch=True)
)
def test_a_quantity_is_an_amount_or_refused(text: str) -> None:
    with soon():
        try:
            amount = quantity.parse(text)
        except ValueError as error:
            assert str(error)
        else:
            assert amount.is_finite()
            int(amount)
            assert text == text.strip(), text


@fuzz(150)
@given(st.integers(-(10**9), 10**9), st.sampled_from(["", "m", "k", "M", "G", "Ki", "Mi", "Gi", "Ti"]))
def test_quantities_are_what_they_say(number: int, suffix: str) -> None:
    decimal, binary = {"k": 10**3, "M": 10**6, "G": 10**9}, {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
    scale = {"": 1, "m": Fraction(1, 1000), **decimal, **binary}
    assert Fraction(quantity.parse(f"{number}{suffix}")) == number * scale[suffix]


@fuzz(200)
@given(st.text() | st.text("aZ9-._/ \\é", max_size=300))
def test_whatever_a_server_calls_its_model_has_an_id(name: str) -> None:
    found = as_model_id(name)
    assert not found or ModelRef(id=found, size_gib=1.0).id == found
