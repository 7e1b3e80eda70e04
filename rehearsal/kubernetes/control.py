"""The control API, `/_rehearsal/…`: what CloudFormation's resource handlers and the rehearsal itself ask for."""

from rehearsal.kubernetes import errors
from rehearsal.kubernetes.faults import Faults
from rehearsal.kubernetes.identity import Authenticator, entry_of
from rehearsal.kubernetes.machinery import Cluster
from rehearsal.kubernetes.objects import Json


class Control:
    def __init__(self, *, cluster: Cluster, authenticator: Authenticator, faults: Faults) -> None:
        self._cluster = cluster
        self._authenticator = authenticator
        self._faults = faults

    async def __call__(self, action: str, body: Json) -> Json:
        match action:
            case "faults":
                return self._faults.set(body)
            case "access-entry":
                return self._access_entry(body)
            case "helm" | "addon":
                return {}
        raise errors.no_such_path()

    def _access_entry(self, body: Json) -> Json:
        if body["request"] == "Delete":
            self._authenticator.entries.pop(body["principal_arn"], None)
        else:
            self._authenticator.entries[body["principal_arn"]] = entry_of(body)
        return {}
