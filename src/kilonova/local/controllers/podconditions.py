"""A condition of a pod's status, written by a controller that is not its kubelet."""

from kilonova.api.json import JsonObject
from kilonova.kube import Client, Conflict, NotFound
from kilonova.kube.verbs import PatchKind
from kilonova.local.controllers.objects import PODS, Pod


async def set_pod_condition(client: Client, pod: Pod, condition: JsonObject) -> bool:
    """Write one condition and leave the others alone; False if this very pod has gone."""
    known = pod.metadata
    body = {"metadata": {"uid": known.uid}, "status": {"conditions": [condition]}}
    strategic = PatchKind.STRATEGIC
    try:
        await client.patch(
            PODS, known.name, body, known.namespace, kind=strategic, subresource="status"
        )
    except (NotFound, Conflict):
        return False
    return True
