"""PersistentVolumes and their claims. They are bound by name, as in static provisioning."""

from rehearsal.kubernetes import quantity
from rehearsal.kubernetes import resources as r
from rehearsal.kubernetes.controllers.controller import Controller
from rehearsal.kubernetes.objects import Json, dig, name_of, namespace_of, terminating, uid_of

_COMPONENT = "persistentvolume-controller"


class Volumes(Controller):
    """A claim is bound to the volume that it names. There is no dynamic provisioning; an Event on a claim without a
    volume says so.
    """

    watches = (r.VOLUMES, r.VOLUME_CLAIMS)

    def reconcile(self) -> None:
        for volume in self.store.list(r.VOLUMES):
            self._phase(volume)
        for claim in self.store.list(r.VOLUME_CLAIMS):
            if dig(claim, "status", "phase") != "Bound" and not terminating(claim):
                self._bind(claim)

    def _phase(self, volume: Json) -> None:
        ref = dig(volume, "spec", "claimRef")
        phase = "Available"
        if ref and ref.get("uid"):
            claim = self.store.get(r.VOLUME_CLAIMS, ref["namespace"], ref["name"])
            phase = "Bound" if claim is not None and uid_of(claim) == ref["uid"] else "Released"
        if dig(volume, "status", "phase") != phase:
            self.cluster.modify(r.VOLUMES, volume, lambda obj: obj.update(status={"phase": phase}))

    def _bind(self, claim: Json) -> None:
        name = dig(claim, "spec", "volumeName")
        volume = self.store.get(r.VOLUMES, "", name) if name else None
        problem = self._mismatch(claim, volume)
        if volume is None or problem:
            why = problem or (
                f'volume "{name}" not found' if name else "no volumeName: volumes are provisioned statically here"
            )
            if dig(claim, "status", "phase") != "Pending":
                self.cluster.modify(r.VOLUME_CLAIMS, claim, lambda obj: obj.update(status={"phase": "Pending"}))
                self.cluster.event(claim, "Warning", "FailedBinding", why, component=_COMPONENT)
            return
        ref = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": namespace_of(claim),
            "name": name_of(claim),
        }
        ref["uid"] = uid_of(claim)
        self.cluster.modify(r.VOLUMES, volume, lambda obj: obj["spec"].update(claimRef=ref), subresource="")
        status = {
            "phase": "Bound",
            "accessModes": volume["spec"]["accessModes"],
            "capacity": volume["spec"]["capacity"],
        }
        self.cluster.modify(r.VOLUME_CLAIMS, claim, lambda obj: obj.update(status=status))

    def _mismatch(self, claim: Json, volume: Json | None) -> str:
        """Why the volume cannot satisfy the claim, or ""."""
        if volume is None:
            return ""
        spec, wanted = volume["spec"], claim["spec"]
        ref = spec.get("claimRef") or {}
        if (ref.get("namespace", namespace_of(claim)), ref.get("name", name_of(claim))) != (
            namespace_of(claim),
            name_of(claim),
        ) or ref.get("uid", uid_of(claim)) != uid_of(claim):
            return f'volume "{name_of(volume)}" already bound to a different claim.'
        if not set(wanted["accessModes"]) <= set(spec["accessModes"]):
            return f'Cannot bind to requested volume "{name_of(volume)}": incompatible accessMode'
        if spec.get("storageClassName", "") != wanted.get("storageClassName", ""):
            return f'Cannot bind to requested volume "{name_of(volume)}": storageClassName does not match'
        asked, has = wanted["resources"]["requests"]["storage"], spec["capacity"]["storage"]
        if quantity.parse(asked) > quantity.parse(has):
            return f'Cannot bind to requested volume "{name_of(volume)}": requested PV is too small'
        return ""
