"""An admission webhook that an API server in the same process calls as a function."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from kilonova.kube.admission.server import Handler

Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]


@dataclass(frozen=True, slots=True)
class InProcessWebhook:
    """A handler and its rule: operations on a resource of an API group.

    `resource` is written as in a webhook configuration: `pods` for the objects alone,
    `pods/binding` for a subresource, `*/scale` for one of every resource, `pods/*` for the objects
    and all their subresources; a `group` of `*` is any. A subresource is reviewed as what is sent
    to it: a Binding, an Eviction, a Scale. `mutating` handlers are called first, and may change
    the object.
    """

    name: str
    handler: Handler
    group: str
    resource: str
    operations: Collection[Operation]
    mutating: bool = False
