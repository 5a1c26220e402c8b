"""Writing a pod's status: only when it changed, and only into the pod it is about."""

from kilonova.api.json import JsonObject
from kilonova.kube import Client, Conflict, NotFound, PatchKind
from kilonova.local.nodes.process.kubelet.conditions import OWNED
from kilonova.local.nodes.process.kubelet.pods import PODS, Pod


class StatusWriter:
    """Writes the status of one pod."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._written: JsonObject | None = None

    async def write(self, pod: Pod, status: JsonObject) -> Pod | None:
        """Make this the status; the pod as it is then, None if it is gone or was up to date."""
        if status == self._written and _agrees(pod, status):
            return None
        body: JsonObject = {"metadata": {"uid": pod.uid}, "status": status}
        if pod.status.pod_ip not in ("", status["podIP"]):
            # Addresses are merged: the old one would stay, and a pod can have only one.
            replaced = [{"$patch": "replace"}, *(status["podIPs"] or ())]
            body["status"] = {**status, "podIPs": replaced}
        try:
            written = await self._client.patch(
                PODS,
                pod.metadata.name,
                body,
                pod.metadata.namespace,
                kind=PatchKind.STRATEGIC,
                subresource="status",
            )
        except (NotFound, Conflict):
            # Gone, or another one of its name: the watch will say so.
            return None
        self._written = status
        return written


def _agrees(pod: Pod, status: JsonObject) -> bool:
    """Whether nobody else has changed what the kubelet answers for."""
    present = {each.get("type"): each.get("status") for each in pod.status.conditions}
    wanted = {each["type"]: each["status"] for each in status["conditions"]}
    said = (pod.status.phase, pod.status.pod_ip)
    return said == (status["phase"], status["podIP"] or "") and all(
        present.get(kind) == wanted[kind] for kind in OWNED
    )
