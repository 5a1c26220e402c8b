"""The `caBundle` of webhook configurations, by which the API server trusts an admission server."""

import base64

from kilonova.api.json import JsonObject
from kilonova.kube.client.client import Client, PatchType
from kilonova.kube.client.errors import NotFound
from kilonova.kube.client.resource import unstructured_resource

WEBHOOK_CONFIGURATIONS = tuple(
    unstructured_resource("admissionregistration.k8s.io", "v1", f"{kind.lower()}s", kind, False)
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
)


async def ensure_ca_bundle(client: Client, configuration_name: str, ca_pem: bytes) -> bool:
    """Set the CA bundle of all webhooks in the configurations of this name, of both kinds.

    Writes only `caBundle`, and only where it differs. Returns False if there is no such
    configuration (yet).
    """
    ca_bundle = base64.b64encode(ca_pem).decode()
    found = False
    for resource in WEBHOOK_CONFIGURATIONS:
        try:
            configuration = await client.get(resource, configuration_name)
        except NotFound:
            continue
        found = True
        webhooks: list[JsonObject] = configuration.get("webhooks") or []
        changes = [
            {"name": webhook["name"], "clientConfig": {"caBundle": ca_bundle}}
            for webhook in webhooks
            if webhook["clientConfig"].get("caBundle") != ca_bundle
        ]
        if changes:
            # A strategic merge patch matches webhooks by name, whatever their order is by now.
            patch: JsonObject = {"webhooks": changes}
            await client.patch(resource, configuration_name, patch, patch_type=PatchType.STRATEGIC)
    return found
