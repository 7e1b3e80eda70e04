"""Each error of AWS says what to do about it, in every command."""

import pytest
from botocore.exceptions import (
    EndpointConnectionError,
    NoCredentialsError,
    ProfileNotFound,
    SSOTokenLoadError,
    TokenRetrievalError,
    UnauthorizedSSOTokenError,
)
from specdecode.cli import main
from specdecode.cli.aws_errors import what_to_do
from specdecode.cli.runs_deployment import Deployment

from tests.specdecode.cli.preflight.aws import error

SAYS = [
    (NoCredentialsError(), "export AWS_ACCESS_KEY_ID"),
    (SSOTokenLoadError(error_msg="x"), "`aws sso login`"),
    (UnauthorizedSSOTokenError(), "`aws sso login`"),
    (TokenRetrievalError(provider="sso", error_msg="x"), "`aws sso login`"),
    (ProfileNotFound(profile="nope"), "the profiles that exist: home, work"),
    (EndpointConnectionError(endpoint_url="https://sts.us-east-9.amazonaws.com"), "does that region exist?"),
    (error("ExpiredToken"), "renew the credentials"),
    (error("AccessDenied", operation="DescribeStacks"), "allow DescribeStacks"),
]


@pytest.fixture(autouse=True)
def configuration(monkeypatch, tmp_path):
    (tmp_path / "config").write_text("[profile work]\nregion = us-east-2\n[profile home]\nregion = us-east-2\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))


@pytest.mark.parametrize(("raised", "words"), SAYS, ids=[type(raised).__name__ for raised, _ in SAYS])
@pytest.mark.parametrize("command", ["runs", "status"])
def test_another_command_says_what_to_do_in_one_line(raised, words, command, monkeypatch, capsys):
    def fails(*_: object) -> None:
        raise raised

    monkeypatch.setattr(Deployment, "client", fails)
    monkeypatch.setenv("AWS_REGION", "us-east-2")
    monkeypatch.setattr("sys.argv", ["specdecode", command])
    with pytest.raises(SystemExit) as ended:
        main()
    text = capsys.readouterr().err
    assert (ended.value.code, text.count("\n")) == (3, 1)
    assert words in text and words in what_to_do(raised)


def test_preflight_with_a_profile_that_does_not_exist_names_those_that_do(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr("sys.argv", ["specdecode", "preflight", "--profile", "nope"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 3
    assert "the profiles that exist: home, work" in capsys.readouterr().out
