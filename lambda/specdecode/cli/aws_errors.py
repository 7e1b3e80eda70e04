"""What the user can do about an error of AWS. Every command says it in the same words."""

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    EndpointConnectionError,
    InvalidRegionError,
    NoCredentialsError,
    PartialCredentialsError,
    ProfileNotFound,
    SSOError,
    TokenRetrievalError,
)

from specdecode import aws

DENIED = frozenset({
    "AccessDenied", "AccessDeniedException", "AuthorizationError", "AuthorizationErrorException", "NotAuthorized",
    "UnauthorizedOperation",
})  # fmt: skip
"""AWS's error codes for credentials without the right to look (EC2, SNS and others have their own)."""
EXPIRED = frozenset({
    "AuthFailure", "ExpiredToken", "ExpiredTokenException", "IncompleteSignature", "InvalidAccessKeyId",
    "InvalidClientTokenId", "RequestExpired", "SignatureDoesNotMatch", "UnrecognizedClientException",
})  # fmt: skip
"""AWS's error codes for credentials that are wrong, revoked or expired."""
GIVE = (
    "`aws sso login` and give that --profile, or "
    "export AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (AWS_SESSION_TOKEN too, if there is one)"
)


def in_a_line(error: Exception) -> str | None:
    """An error of AWS, or of the way to it, in one line. None for any other error."""
    if isinstance(error, aws.NoRegion):
        return str(error)
    return f"{error} ({what_to_do(error)})" if isinstance(error, (BotoCoreError, ClientError)) else None


def what_to_do(error: BotoCoreError | ClientError) -> str:
    """One line for the user. It makes no call: profiles are read from the AWS configuration."""
    match error:
        case ClientError():
            code = error.response["Error"]["Code"]
            if code in DENIED:
                return f"allow {error.operation_name}, or look in the console"
            if code in EXPIRED:
                return "renew the credentials (`aws sso login`, or new keys)"
            return "try again; if it stays, look in the console"
        case NoCredentialsError() | PartialCredentialsError():
            return GIVE
        case SSOError() | TokenRetrievalError():
            return "`aws sso login` (with the same --profile), then try again"
        case ProfileNotFound():
            there = ", ".join(aws.profiles()) or "none"
            return f"choose another with --profile or AWS_PROFILE; the profiles that exist: {there}"
        case EndpointConnectionError() | InvalidRegionError():
            return "does that region exist? If it does, check the network"
    return "check the network and the AWS configuration, and try again"
