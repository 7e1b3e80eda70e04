"""ResourceClaims: made from a pod's template, freed when no pod uses them any more."""

import copy

from rehearsal.kubernetes import resources as r
from rehearsal.kubernetes.controllers import pods
from rehearsal.kubernetes.controllers.controller import Controller
from rehearsal.kubernetes.machinery import random_suffix
from rehearsal.kubernetes.objects import Json, dig, name_of, namespace_of, owner_reference, terminating

_COMPONENT = "resource_claim"
_ANNOTATION = "resource.kubernetes.io/pod-claim-name"


class Claims(Controller):
    """A claim lives as long as its pod may run. A claim from a template is deleted with its pod, or when the pod is
    done.
    """

    watches = (r.PODS, r.CLAIMS, r.CLAIM_TEMPLATES)

    def reconcile(self) -> None:
        for pod in self.store.list(r.PODS):
            if pods.is_active(pod):
                for entry in pod["spec"].get("resourceClaims", ()):
                    if "resourceClaimTemplateName" in entry:
                        self._ensure(pod, entry)
        for claim in self.store.list(r.CLAIMS):
            self._release(claim)

    def _ensure(self, pod: Json, entry: Json) -> None:
        made = {s["name"] for s in dig(pod, "status", "resourceClaimStatuses", default=())}
        if entry["name"] in made:
            return
        namespace = namespace_of(pod)
        template = self.store.get(r.CLAIM_TEMPLATES, namespace, entry["resourceClaimTemplateName"])
        if template is None:
            wanted = entry["resourceClaimTemplateName"]
            missing = f'resourceclaimtemplate.resource.k8s.io "{wanted}" not found'
            message = f'PodResourceClaim {entry["name"]}: resource claim template "{wanted}": {missing}'
            self.cluster.event(pod, "Warning", "FailedResourceClaimCreation", message, component=_COMPONENT)
            return
        own = template["spec"].get("metadata") or {}
        metadata = {
            **own,
            "name": f"{name_of(pod)[:50]}-{entry['name']}-{random_suffix()}",
            "namespace": namespace,
            "annotations": {**own.get("annotations", {}), _ANNOTATION: entry["name"]},
            "ownerReferences": [owner_reference(pod)],
        }
        claim = {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": metadata,
            "spec": copy.deepcopy(template["spec"]["spec"]),
        }
        created = self.cluster.create(r.CLAIMS, claim)

        def note(obj: Json) -> None:
            status = obj.setdefault("status", {"phase": "Pending"})
            entries = status.setdefault("resourceClaimStatuses", [])
            entries.append({"name": entry["name"], "resourceClaimName": name_of(created)})

        self.cluster.modify(r.PODS, pod, note)

    def _release(self, claim: Json) -> None:
        reserved = dig(claim, "status", "reservedFor", default=[])
        using = [entry for entry in reserved if self._in_use(namespace_of(claim), entry)]
        made_for = next((ref for ref in claim["metadata"].get("ownerReferences", ()) if ref["kind"] == "Pod"), None)
        if made_for and not terminating(claim):
            owner = self.store.by_uid(made_for["uid"])
            if owner is not None and pods.is_finished(owner[1]):
                self.cluster.delete(r.CLAIMS, namespace_of(claim), name_of(claim))
                return
        if using != reserved:

            def free(obj: Json) -> None:
                obj["status"]["reservedFor"] = using
                if not using:
                    obj["status"] = {}

            self.cluster.modify(r.CLAIMS, claim, free)

    def _in_use(self, namespace: str, entry: Json) -> bool:
        pod = self.store.get(r.PODS, namespace, entry["name"])
        return pod is not None and pod["metadata"]["uid"] == entry["uid"] and not pods.is_finished(pod)
