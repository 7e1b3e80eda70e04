"""Loopback addresses: a 127.x.0.0/16 for each running double, an address for each pod and Service."""

import random
import socket

_KUBELET_PORT = 10250


class PodNetwork:
    """A 127.x.0.0/16 that no other rehearsal on this machine uses. It is claimed by a socket on 127.x.0.1:10250."""

    def __init__(self) -> None:
        candidates = list(range(16, 240))
        random.shuffle(candidates)
        for second in candidates:
            claim = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            try:
                claim.bind((f"127.{second}.0.1", _KUBELET_PORT))
                claim.listen(1)
            except OSError:
                claim.close()
                continue
            self._claim, self._prefix, self._next = claim, f"127.{second}", 256
            return
        raise RuntimeError(
            "no free 127.x.0.0/16: 224 rehearsals are running, or port 10250 cannot be bound on loopback"
        )

    @property
    def node_address(self) -> str:
        return f"{self._prefix}.0.1"

    def next_address(self) -> str:
        """A new address. There are 65,000."""
        self._next += 1
        if self._next % 256 in (0, 255):
            self._next += 2
        return f"{self._prefix}.{self._next // 256 % 256}.{self._next % 256}"

    def close(self) -> None:
        self._claim.close()
