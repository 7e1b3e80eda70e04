"""The Kubernetes client: what it sends, what it retries, what it raises."""

import json
import re
from collections.abc import Mapping

import pytest
import urllib3
from hypothesis import given
from hypothesis import strategies as st
from specdecode.kubernetes.client import (
    ATTEMPTS,
    BACKOFF_MAX_S,
    ClusterUnavailable,
    Conflict,
    Expired,
    Forbidden,
    InvalidManifest,
    Kubernetes,
    KubernetesError,
    NoLog,
    NotFound,
    QuotaExceeded,
    Response,
    retry_delay,
)

ANSWER = Response(200, b'{"kind": "Pod"}')


def refusal(code: int, message: str, reason: str) -> Response:
    return Response(code, json.dumps({"message": message, "reason": reason}).encode())


def test_create_leaves_what_is_there_as_it_is():
    secret = {"kind": "Secret", "metadata": {"name": "a", "namespace": "n"}}
    server = Server(ANSWER)
    assert server.client().create(secret) is True
    ((method, target, headers, body),) = server.seen
    assert (method, target) == ("POST", "/api/v1/namespaces/n/secrets?fieldManager=specdecode")
    assert headers["Content-Type"] == "application/json"
    assert json.loads(body or b"") == secret
    assert Server(refusal(409, "exists", "AlreadyExists")).client().create(secret) is False
    with pytest.raises(Conflict):
        Server(refusal(409, "namespace is being terminated", "Conflict")).client().create(secret)


def test_a_full_quota_is_not_a_missing_right():
    said = 'jobs.batch "a" is forbidden: exceeded quota: q, requested: count/jobs.batch=1, used: count/jobs.batch=9'
    with pytest.raises(QuotaExceeded, match="exceeded quota: q, requested"):
        Server(refusal(403, said, "Forbidden")).client().apply({"kind": "Job", "metadata": {"name": "a"}})
    with pytest.raises(Forbidden) as caught:
        Server(refusal(403, "cannot patch", "Forbidden")).client().get("Job", "a", namespace="n")
    assert not isinstance(caught.value, QuotaExceeded)


class Server:
    """Gives the answers in turn, the last one for ever, and keeps what it was sent."""

    def __init__(self, *answers: Response | Exception) -> None:
        self.answers = list(answers)
        self.seen: list[tuple[str, str, dict[str, str], bytes | None]] = []
        self.slept: list[float] = []
        self.tokens: list[bool] = []

    def __call__(self, method: str, target: str, headers: Mapping[str, str], body: bytes | None) -> Response:
        self.seen.append((method, target, dict(headers), body))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def client(self) -> Kubernetes:
        def token(renew: bool) -> str:
            self.tokens.append(renew)
            return "renewed" if renew else "held"

        return Kubernetes(self, token=token, sleep=self.slept.append)


def failure(code: int, **headers: str) -> Response:
    return Response(code, json.dumps({"message": "said the server", "reason": "Because"}).encode(), headers)


def test_apply_is_server_side_apply_with_our_field_manager():
    server = Server(ANSWER)
    server.client().apply({"kind": "Job", "metadata": {"name": "a", "namespace": "n"}})
    ((method, target, headers, body),) = server.seen
    assert (method, target) == ("PATCH", "/apis/batch/v1/namespaces/n/jobs/a?fieldManager=specdecode&force=true")
    assert headers["Content-Type"] == "application/apply-patch+yaml"
    assert headers["Authorization"] == "Bearer held"
    assert json.loads(body or b"")["kind"] == "Job"


def test_scale_patches_the_subresource_of_a_cluster_scoped_object():
    server = Server(ANSWER)
    server.client().scale("NodePool", "trn2", 1)
    method, target, headers, body = server.seen[0]
    assert (method, target) == ("PATCH", "/apis/karpenter.sh/v1/nodepools/trn2/scale")
    assert headers["Content-Type"] == "application/merge-patch+json"
    assert json.loads(body or b"") == {"spec": {"replicas": 1}}


def test_delete_takes_the_pods_along_and_is_content_with_nothing_there():
    server = Server(ANSWER, failure(404))
    assert server.client().delete("Job", "a", namespace="n") is True
    assert json.loads(server.seen[0][3] or b"")["propagationPolicy"] == "Background"
    assert server.client().delete("Job", "a", namespace="n") is False


def test_get_of_a_missing_object_is_none():
    assert Server(failure(404)).client().get("Pod", "a", namespace="n") is None


def test_list_reads_all_pages_and_leaves_out_empty_selectors():
    first = Response(200, b'{"items": [{"a": 1}], "metadata": {"continue": "more"}}')
    last = Response(200, b'{"items": [{"a": 2}], "metadata": {}}')
    server = Server(first, last)
    assert server.client().list("Pod", namespace="n", selector="x=y") == [{"a": 1}, {"a": 2}]
    assert [target.partition("?")[2] for _, target, _, _ in server.seen] == [
        "limit=250&labelSelector=x%3Dy",
        "limit=250&labelSelector=x%3Dy&continue=more",
    ]


def test_a_list_whose_pages_are_forgotten_on_the_way_is_read_again_whole():
    """410 Expired: pages of two moments do not make a list."""
    first = Response(200, b'{"items": [{"a": 1}], "metadata": {"continue": "more"}}')
    whole = Response(200, b'{"items": [{"a": 0}, {"a": 1}, {"a": 2}], "metadata": {}}')
    server = Server(first, failure(410), whole)
    assert server.client().list("Pod", namespace="n", selector="x=y") == [{"a": 0}, {"a": 1}, {"a": 2}]
    assert server.seen[-1][1].partition("?")[2] == "labelSelector=x%3Dy"
    with pytest.raises(Expired):
        Server(failure(410)).client().list("Pod", namespace="n")


def test_logs_are_text_even_where_bytes_are_broken():
    server = Server(Response(200, b"ok \xff"))
    assert server.client().logs("p", namespace="n", container="main", previous=True).startswith("ok ")
    assert (
        server.seen[0][1]
        == "/api/v1/namespaces/n/pods/p/log?container=main&tailLines=2000&limitBytes=16777216&previous=true"
    )


@pytest.mark.parametrize(
    "answer", [failure(429), failure(500), failure(503), urllib3.exceptions.ProtocolError("connection reset")]
)
def test_passing_trouble_is_retried(answer):
    server = Server(answer, answer, ANSWER)
    assert server.client().get("Pod", "a", namespace="n") == {"kind": "Pod"}
    assert len(server.slept) == 2


@pytest.mark.parametrize("answer", [failure(500), urllib3.exceptions.ConnectTimeoutError("timed out")])
def test_lasting_trouble_is_given_up_without_a_last_sleep(answer):
    server = Server(answer)
    with pytest.raises(ClusterUnavailable):
        server.client().get("Pod", "a", namespace="n")
    assert (len(server.seen), len(server.slept)) == (ATTEMPTS, ATTEMPTS - 1)


@pytest.mark.parametrize(
    ("code", "error"),
    [(400, InvalidManifest), (403, Forbidden), (409, Conflict), (422, InvalidManifest), (418, KubernetesError)],
)
def test_a_refusal_is_not_retried_and_says_what_the_server_said(code, error):
    server = Server(failure(code))
    with pytest.raises(error, match=r"PATCH .*said the server") as caught:
        server.client().apply({"kind": "Job", "metadata": {"name": "a", "namespace": "n"}})
    assert (caught.value.status, caught.value.reason, len(server.seen)) == (code, "Because", 1)


@pytest.mark.parametrize(
    "said",
    [
        f"failed to create typed patch object (n/a; apps/v1, Kind=Deployment): {wrong}"
        for wrong in (
            ".spec.template.spec.frobnicate: field not declared in schema",
            ".spec.replicas: expected numeric (int or float), got string",
            '.spec.template.spec.containers[name="main"].env: duplicate entries for key [name="POD_IP"]',
        )
    ]
    + [
        "failed to convert new object (n/a; apps/v1, Kind=Deployment) to proper version: unable to convert "
        "unstructured object to apps/v1, Kind=Deployment: quantities must match the regular expression"
    ],
)
def test_an_apply_that_is_not_of_the_schema_is_refused_for_good_though_the_server_says_500(said):
    server = Server(refusal(500, said, ""))
    with pytest.raises(InvalidManifest, match=re.escape(said[:50])):
        server.client().apply({"kind": "Deployment", "metadata": {"name": "a", "namespace": "n"}})
    assert (len(server.seen), server.slept) == (1, [])


@pytest.mark.parametrize(
    "answer",
    [
        refusal(400, 'container "main" in pod "p" is terminated', "BadRequest"),
        refusal(500, "Get https://10.0.1.2:10250/containerLogs/n/p/main: dial tcp: i/o timeout", "InternalError"),
        urllib3.exceptions.ReadTimeoutError(None, "", "Read timed out."),  # type: ignore[arg-type]
    ],
)
def test_a_log_that_cannot_be_had_is_asked_for_once_and_is_no_refused_manifest(answer):
    server = Server(answer)
    with pytest.raises(NoLog):
        server.client().logs("p", namespace="n", container="main")
    assert (len(server.seen), server.slept) == (1, [])


def test_an_expired_token_costs_a_log_no_attempt():
    server = Server(failure(401), Response(200, b"text"))
    assert server.client().logs("p", namespace="n", container="main") == "text"
    assert server.tokens == [False, True]


def test_an_expired_token_is_renewed_once():
    server = Server(failure(401), ANSWER)
    assert server.client().get("Pod", "a", namespace="n") == {"kind": "Pod"}
    assert server.tokens == [False, True]
    refused = Server(failure(401))
    with pytest.raises(Forbidden):
        refused.client().get("Pod", "a", namespace="n")
    assert len(refused.seen) == 2


def test_an_answer_that_is_no_status_object_is_still_an_error():
    with pytest.raises(KubernetesError, match="<html>"):
        Server(Response(403, b"<html>go away")).client().get("Pod", "a", namespace="n")
    with pytest.raises(NotFound):
        Server(Response(404, b"[]")).client().logs("p", namespace="n", container="c")


@given(st.integers(0, 20), st.floats(0, 1), st.sampled_from([None, "1", "3", "9999", "soon"]))
def test_the_pause_is_bounded_and_never_shorter_than_asked(attempt, rand, retry_after):
    pause = retry_delay(attempt, retry_after, rand=lambda: rand)
    assert 0 <= pause <= BACKOFF_MAX_S
    if retry_after in {"1", "3"}:
        assert pause >= float(retry_after)
