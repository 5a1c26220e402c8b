"""The operator's webhooks: what each is asked about, and where."""

from dataclasses import dataclass
from typing import Literal

from kilonova.api import grove, podgang
from kilonova.workloads.settings import Settings

DEFAULTS_PATH = "/webhooks/default-podcliqueset"
VALIDATION_PATH = "/webhooks/validate-podcliqueset"
TOPOLOGY_PATH = "/webhooks/validate-clustertopology"
AUTHORIZER_PATH = "/webhooks/authorizer-webhook"

Operation = Literal["CREATE", "UPDATE", "DELETE"]

_WRITES: tuple[Operation, ...] = ("CREATE", "UPDATE")
_ALL: tuple[Operation, ...] = (*_WRITES, "DELETE")


@dataclass(frozen=True, slots=True)
class Interest:
    """Operations on resources of one version of an API group."""

    group: str
    version: str
    resources: tuple[str, ...]
    operations: tuple[Operation, ...]


@dataclass(frozen=True, slots=True)
class Hook:
    """One webhook. `ours_only`: asked only about objects that the operator has made."""

    name: str
    path: str
    interests: tuple[Interest, ...]
    mutating: bool = False
    ours_only: bool = False


_SETS = Interest(grove.GROUP, grove.VERSION, ("podcliquesets",), _WRITES)
_TOPOLOGIES = Interest(grove.GROUP, grove.VERSION, ("clustertopologybindings",), _WRITES)

DEFAULTS = Hook("default.podcliqueset.grove.io", DEFAULTS_PATH, (_SETS,), mutating=True)
VALIDATION = Hook("validate.podcliqueset.grove.io", VALIDATION_PATH, (_SETS,))
TOPOLOGY = Hook("validate.clustertopology.grove.io", TOPOLOGY_PATH, (_TOPOLOGIES,))
AUTHORIZER = Hook(
    "authorizer.podcliqueset.grove.io",
    AUTHORIZER_PATH,
    (
        Interest("", "v1", ("services", "serviceaccounts", "secrets"), _ALL),
        Interest("", "v1", ("pods",), ("UPDATE",)),
        Interest("rbac.authorization.k8s.io", "v1", ("roles", "rolebindings"), _ALL),
        Interest("autoscaling", "v2", ("horizontalpodautoscalers",), _ALL),
        Interest(grove.GROUP, grove.VERSION, ("podcliques", "podcliquescalinggroups"), _ALL),
        Interest(podgang.GROUP, podgang.VERSION, ("podgangs",), _ALL),
    ),
    ours_only=True,
)


def hooks_of(settings: Settings) -> tuple[Hook, ...]:
    """All webhooks of an operator that is set up so."""
    return (DEFAULTS, VALIDATION, TOPOLOGY, *((AUTHORIZER,) if settings.authorizer else ()))
