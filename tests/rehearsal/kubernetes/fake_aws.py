"""A stand-in for the parts of STS and S3 that the double calls."""

import base64
import datetime
import json
import urllib.parse
from contextlib import ExitStack

from tests.local_http import Handler, served

ACCOUNT = "111122223333"


class FakeAws:
    """`objects` is the bucket; `assumed` lists (role, subject of the web identity token) of each role assumption."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.assumed: list[tuple[str, str]] = []
        aws = self

        class Answering(Handler):
            def do_POST(self) -> None:
                form = urllib.parse.parse_qs(self.body().decode())
                claims = form["WebIdentityToken"][0].split(".")[1]
                subject = json.loads(base64.urlsafe_b64decode(claims + "=="))["sub"]
                role = form["RoleArn"][0]
                aws.assumed.append((role, subject))
                if role.endswith("/denied"):
                    self.reply(
                        403,
                        b"<ErrorResponse><Error><Code>AccessDenied</Code><Message>no</Message></Error></ErrorResponse>",
                    )
                    return
                parts = {"AccessKeyId": "a", "SecretAccessKey": "b", "SessionToken": "c"}
                parts["Expiration"] = "2099-01-01T00:00:00Z"
                keys = "".join(f"<{key}>{value}</{key}>" for key, value in parts.items())
                name = "AssumeRoleWithWebIdentity"
                self.reply(
                    200,
                    f"<{name}Response><{name}Result><Credentials>{keys}</Credentials></{name}Result></{name}Response>".encode(),
                )

            def do_GET(self) -> None:
                url = urllib.parse.urlsplit(self.path)
                query = dict(urllib.parse.parse_qsl(url.query))
                if query.get("Action") == "GetCallerIdentity":
                    arn = query["X-Amz-Credential"].split("/")[0]
                    if self.headers.get("x-k8s-aws-id") != "rehearsal":
                        self.reply(403, b"")
                    else:
                        self.reply(200, f"<R><Arn>arn:aws:sts::{ACCOUNT}:assumed-role/{arn}/session</Arn></R>".encode())
                elif "list-type" in query:
                    found = [k for k in sorted(aws.objects) if k.startswith(query.get("prefix", ""))]
                    entries = "".join(
                        f"<Contents><Key>{k}</Key><Size>{len(aws.objects[k])}</Size></Contents>" for k in found
                    )
                    self.reply(
                        200, f"<ListBucketResult><IsTruncated>false</IsTruncated>{entries}</ListBucketResult>".encode()
                    )
                else:
                    key = url.path.split("/", 2)[2]
                    stamp = {"ETag": '"1"', "Last_Modified": "Mon, 01 Jan 2024 00:00:00 GMT"}
                    self.reply(200, aws.objects[key], **stamp)

            do_HEAD = do_GET

        self._running = ExitStack()
        self.url = self._running.enter_context(served(Answering))
        self.stop = self._running.close


def eks_token(role: str, *, signed: datetime.datetime | None = None, headers: str = "host;x-k8s-aws-id") -> str:
    """A token in the form of `aws eks get-token`. The fake STS takes the role's name from the access key."""
    stamp = (signed or datetime.datetime.now(datetime.UTC)).strftime("%Y%m%dT%H%M%SZ")
    query = {
        "Action": "GetCallerIdentity",
        "Version": "2011-06-15",
        "X-Amz-Algorithm": "AWS4-HMAC-SHA256",
        "X-Amz-Credential": f"{role}/20260101/us-east-2/sts/aws4_request",
        "X-Amz-Date": stamp,
        "X-Amz-Expires": "60",
        "X-Amz-SignedHeaders": headers,
        "X-Amz-Signature": "0" * 64,
    }
    url = "https://sts.us-east-2.amazonaws.com/?" + urllib.parse.urlencode(query)
    return "k8s-aws-v1." + base64.urlsafe_b64encode(url.encode()).decode().rstrip("=")
