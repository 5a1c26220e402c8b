"""Making the API server trust an admission server."""

import base64

from kilonova.api.json import JsonObject
from kilonova.kube.client import Client, PatchKind
from kilonova.kube.errors import NotFound
from kilonova.kube.resource import plain

CONFIGURATIONS = tuple(
    plain("admissionregistration.k8s.io", "v1", f"{kind.lower()}s", kind, False)
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
)


async def ensure_ca_bundle(client: Client, configuration_name: str, ca_pem: bytes) -> bool:
    """Put the authority into all webhooks of the configurations of this name, of both kinds.

    Writes only where it differs, and only the caBundle. False if there is no such
    configuration (yet).
    """
    wanted = base64.b64encode(ca_pem).decode()
    found = False
    for resource in CONFIGURATIONS:
        try:
            configuration = await client.get(resource, configuration_name)
        except NotFound:
            continue
        found = True
        webhooks: list[JsonObject] = configuration.get("webhooks") or []
        changes = [
            {"name": webhook["name"], "clientConfig": {"caBundle": wanted}}
            for webhook in webhooks
            if webhook["clientConfig"].get("caBundle") != wanted
        ]
        if changes:
            # Strategic, so that webhooks are matched by name whatever their order has become.
            patch: JsonObject = {"webhooks": changes}
            await client.patch(resource, configuration_name, patch, kind=PatchKind.STRATEGIC)
    return found
