"""Pod conditions written by controllers other than the kubelet."""

from kilonova.api.json import JsonObject
from kilonova.kube import Client, Conflict, NotFound
from kilonova.kube.client.options import PatchType
from kilonova.local.objects.core import PODS, Pod


async def set_pod_condition(client: Client, pod: Pod, condition: JsonObject) -> bool:
    """Write one condition and leave the others unchanged; False if this pod was deleted."""
    metadata = pod.metadata
    body = {"metadata": {"uid": metadata.uid}, "status": {"conditions": [condition]}}
    strategic = PatchType.STRATEGIC
    try:
        await client.patch(
            PODS,
            metadata.name,
            body,
            metadata.namespace,
            patch_type=strategic,
            subresource="status",
        )
    except (NotFound, Conflict):
        return False
    return True
