"""Admission webhooks: the API server calls them before it stores an object.

- An **admission request** specifies which user does what to which object.
- A **handler** returns an **admission response**: `Allowed`, `Mutated` (with the wanted object; the
  JSON patch is computed from the difference) or `Denied` (`deny_invalid(…)` for invalid fields).
- The **server** serves handlers by path over TLS. Its certificate comes from a **source**: given
  files, or a certificate authority of its own that is stored in a folder or a Secret and renews the
  certificate before it expires. `ensure_ca_bundle` makes the API server trust it.

    async def check(request: AdmissionRequest) -> Allowed | Denied:
        if (request.object or {})["spec"]["replicas"] > 100:
            return deny_invalid(FieldError("spec.replicas", "must be at most 100"))
        return Allowed()

    AdmissionServer({"/validate-set": check}, source, port=9443)
"""

from kilonova.kube.admission.ca_bundle import ensure_ca_bundle
from kilonova.kube.admission.json_patch import create_json_patch
from kilonova.kube.admission.review import (
    AdmissionRequest,
    AdmissionResponse,
    Allowed,
    Denied,
    FieldError,
    Mutated,
    deny_invalid,
)
from kilonova.kube.admission.server import AdmissionServer, Handler
from kilonova.kube.serving.certificate_sources import (
    FileSource,
    FolderSource,
    SecretSource,
    service_names,
)

__all__ = [
    "AdmissionRequest",
    "AdmissionResponse",
    "AdmissionServer",
    "Allowed",
    "Denied",
    "FieldError",
    "FileSource",
    "FolderSource",
    "Handler",
    "Mutated",
    "SecretSource",
    "create_json_patch",
    "deny_invalid",
    "ensure_ca_bundle",
    "service_names",
]
