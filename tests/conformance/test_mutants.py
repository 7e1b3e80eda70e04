"""Mutants of valid objects: the answers of the double, or of any real API server, compared with the recorded ones.

`make conformance` sends them all; `make test` every twentieth.
"""

import os

import pytest

from tests.conformance import answers
from tests.conformance.mutants import Mutant, classes, digest, mutants, seeds
from tests.conformance.server import Server, path_of

STEP = 1 if "CONFORMANCE_KUBECONFIG" in os.environ else 20
SENT = [(how, kind) for how in answers.HOWS for kind in classes() if answers.is_sent(kind, how)]


@pytest.fixture(autouse=True)
def _seeds_are_stored(server: Server, places: answers.Places) -> None:
    answers.renew(server, places)


@pytest.mark.parametrize("how", answers.HOWS)
@pytest.mark.parametrize("seed", seeds())
def test_a_seed_is_taken(server: Server, places: answers.Places, seed: str, how: str) -> None:
    if seed == "ResourceClaimTemplate" and server.lacks("resource.k8s.io/v1"):
        pytest.skip("the server does not serve resource.k8s.io/v1 (device claims)")
    for namespace in ("open", "restricted"):
        sent = Mutant(seed=seed, name=seed, namespace=namespace)
        status, message = answers.send(server, sent, places, how)
        assert status == (200 if how in ("updated", "reapplied") else 201), message


@pytest.mark.parametrize(("how", "kind"), SENT, ids=[f"{kind}, {how}" for how, kind in SENT])
def test_a_mutant_gets_the_recorded_answer(server: Server, places: answers.Places, how: str, kind: str) -> None:
    wrong = []
    if not server.is_double and server.minor() != answers.recorded()["server"].rsplit("v1.", 1)[1].split(".")[0]:
        pytest.skip(f"answers are recorded of {answers.recorded()['server']}; this server is 1.{server.minor()}")
    told, rest = answers.answers(how, kind), answers.rest(how, kind)
    for mutant in list(mutants(kind))[::STEP]:
        if mutant.seed == "ResourceClaimTemplate" and server.lacks("resource.k8s.io/v1"):
            continue
        expected = told.get(mutant.name, rest)
        if server.is_double:
            expected = answers.differences().get((how, kind, mutant.name), expected)
        status, message = answers.send(server, mutant, places, how)
        if status != expected:
            wrong.append(f"{mutant.name}: {status}, not {expected}: {message}")
    assert not wrong, "\n".join(wrong)


def test_the_recorded_answers_are_of_these_mutants() -> None:
    assert answers.recorded()["mutants"] == digest(), "record again: python -m tests.conformance.record"
    assert sum(1 for how, kind in SENT for _ in mutants(kind)) > 8000


def test_the_double_is_nowhere_laxer_and_stricter_only_with_a_reason() -> None:
    for how, kind, name, status, because in answers.listed():
        told = answers.answers(how, kind).get(name, answers.rest(how, kind))
        assert 400 <= status < 500, (name, "the double is laxer, or fails")
        assert status != told, (name, "no difference any more")
        assert because.startswith(
            ("the rehearsal cannot run this: ", "a number that does not fit", "a part that is empty")
        ), name


def test_a_stored_job_that_is_gone_is_stored_again(server: Server, places: answers.Places) -> None:
    path = path_of(seeds()["Job"], places.namespaces["stored open"])
    server.ok("DELETE", f"{path}/seed?propagationPolicy=Background")
    server.wait(lambda: server.request("GET", f"{path}/seed")[0] == 404)
    answers.renew(server, places)
    assert places.stored["stored open", "Job"]["metadata"]["uid"] == server.ok("GET", f"{path}/seed")["metadata"]["uid"]
