"""Writes pod statuses: only when they changed, and only to the pod with the same uid."""

from kilonova.api.json import JsonObject
from kilonova.kube import Client, Conflict, NotFound, PatchType
from kilonova.local.processnode.kubelet.objects import PODS, Pod
from kilonova.local.processnode.kubelet.status.conditions import KUBELET_CONDITIONS


class PodStatusWriter:
    """Writes the status of one pod."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._written: JsonObject | None = None

    async def write(self, pod: Pod, status: JsonObject) -> Pod | None:
        """Write the status; returns the updated pod, None if it is gone or was up to date."""
        if status == self._written and _is_up_to_date(pod, status):
            return None
        body: JsonObject = {"metadata": {"uid": pod.uid}, "status": status}
        if pod.status.pod_ip not in ("", status["podIP"]):
            # podIPs is merged: the old address would stay, and a pod can have only one.
            replaced = [{"$patch": "replace"}, *(status["podIPs"] or ())]
            body["status"] = {**status, "podIPs": replaced}
        try:
            written = await self._client.patch(
                PODS,
                pod.metadata.name,
                body,
                pod.metadata.namespace,
                patch_type=PatchType.STRATEGIC,
                subresource="status",
            )
        except (NotFound, Conflict):
            # Deleted or replaced by another pod of the same name: the watch will report it.
            return None
        self._written = status
        return written


def _is_up_to_date(pod: Pod, status: JsonObject) -> bool:
    """Whether the fields that the kubelet owns are unchanged."""
    present = {each.get("type"): each.get("status") for each in pod.status.conditions}
    desired = {each["type"]: each["status"] for each in status["conditions"]}
    reported = (pod.status.phase, pod.status.pod_ip)
    return reported == (status["phase"], status["podIP"] or "") and all(
        present.get(kind) == desired[kind] for kind in KUBELET_CONDITIONS
    )
