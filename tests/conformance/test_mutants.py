"""Seeded mutants of valid objects against the committed list of Kubernetes' answers."""

import pytest

from tests.conformance.mutants import classes, mutants, seeds
from tests.conformance.server import Server, path_of

STRICT = "?dryRun=All&fieldValidation=Strict"


@pytest.mark.parametrize("seed", seeds())
def test_a_seed_is_taken(server: Server, namespaces: dict[str, str], seed: str) -> None:
    body = seeds()[seed]
    if seed == "ResourceClaimTemplate" and server.lacks("resource.k8s.io/v1"):
        pytest.skip("the server does not serve resource.k8s.io/v1 (device claims)")
    for namespace in ("open", "restricted"):
        status, answer = server.request("POST", path_of(body, namespaces[namespace]) + STRICT, body)
        assert status == 201, answer


@pytest.mark.parametrize("kind", [kind["class"] for kind in classes()])
def test_a_mutant_gets_the_answer_of_the_list(server: Server, namespaces: dict[str, str], kind: str) -> None:
    wrong = []
    for mutant in mutants(kind):
        if mutant.body["kind"] == "ResourceClaimTemplate" and server.lacks("resource.k8s.io/v1"):
            continue
        path = path_of(mutant.body, namespaces[mutant.namespace])
        status, answer = server.request("POST", path + STRICT, mutant.body)
        expected = mutant.double if server.is_double else mutant.kubernetes
        if status != expected:
            wrong.append(f"{mutant.name}: {status}, not {expected}: {answer.get('message', '')}")
    assert not wrong, "\n".join(wrong)


def test_the_list_says_where_an_answer_comes_from_and_why_the_doubles_differs() -> None:
    for kind in classes():
        assert kind["source"]
        assert ("double" in kind) == ("because" in kind), kind["class"]
        assert "double" not in kind or kind["double"] >= 400 > kind["kubernetes"], "the double is laxer on none"
    drawn = list(mutants())
    assert len(drawn) > 1400
    assert [(m.name, m.body) for m in mutants()] == [(m.name, m.body) for m in drawn], "the same every time"
