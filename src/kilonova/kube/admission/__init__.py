"""Admission webhooks: the API server asks before it stores an object.

- A **review** is the question: who does what to which object.
- A **handler** answers it: `Allowed`, `Mutated` (with the object as it should be; the patch is
  worked out from the difference) or `Denied` (`invalid(…)` where fields are at fault).
- The **server** serves handlers by path over TLS. Its certificate comes from a **source**:
  given files, or an authority of its own that is kept in a folder or a Secret and renews the
  certificate before it expires. `ensure_ca_bundle` makes the API server trust it.

    async def check(review: Review) -> Allowed | Denied:
        if (review.object or {})["spec"]["replicas"] > 100:
            return invalid(Problem("spec.replicas", "must be at most 100"))
        return Allowed()

    AdmissionServer({"/validate-set": check}, source, port=9443)
"""

from kilonova.kube.admission.configuration import ensure_ca_bundle
from kilonova.kube.admission.jsonpatch import json_patch_between
from kilonova.kube.admission.review import (
    Allowed,
    Answer,
    Denied,
    Mutated,
    Problem,
    Review,
    invalid,
)
from kilonova.kube.admission.server import AdmissionServer, Handler
from kilonova.kube.admission.sources import (
    FolderSource,
    GivenFiles,
    SecretSource,
    service_names,
)

__all__ = [
    "AdmissionServer",
    "Allowed",
    "Answer",
    "Denied",
    "FolderSource",
    "GivenFiles",
    "Handler",
    "Mutated",
    "Problem",
    "Review",
    "SecretSource",
    "ensure_ca_bundle",
    "invalid",
    "json_patch_between",
    "service_names",
]
