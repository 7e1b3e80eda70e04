"""ServiceAccount tokens for IAM roles (IRSA): JWTs. STS checks their issuer, subject and audience."""

import base64
import json
import time

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature


def _encode(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class TokenIssuer:
    """Signs with a key of this double (ES256); `issuer` is the cluster's OIDC issuer URL."""

    def __init__(self, issuer: str) -> None:
        self.issuer = issuer
        self._key = ec.generate_private_key(ec.SECP256R1())

    def issue(self, *, namespace: str, account: str, pod: str, audience: str, seconds: int) -> str:
        """A token of `system:serviceaccount:<namespace>:<account>`."""
        issued = int(time.time())
        claims = {
            "iss": self.issuer,
            "sub": f"system:serviceaccount:{namespace}:{account}",
            "aud": [audience],
            "iat": issued,
            "nbf": issued,
            "exp": issued + seconds,
            "kubernetes.io": {"namespace": namespace, "pod": {"name": pod}, "serviceaccount": {"name": account}},
        }
        head = {"alg": "ES256", "typ": "JWT", "kid": "rehearsal"}
        signed = ".".join(_encode(json.dumps(part, separators=(",", ":")).encode()) for part in (head, claims))
        r, s = decode_dss_signature(self._key.sign(signed.encode(), ec.ECDSA(hashes.SHA256())))
        return f"{signed}.{_encode(r.to_bytes(32, 'big') + s.to_bytes(32, 'big'))}"
