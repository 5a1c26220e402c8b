"""The operator's webhooks: their rules and paths."""

from dataclasses import dataclass
from typing import Literal

from kilonova.api import grove, podgang
from kilonova.workloads.settings import OperatorSettings

DEFAULTS_PATH = "/webhooks/default-podcliqueset"
VALIDATION_PATH = "/webhooks/validate-podcliqueset"
TOPOLOGY_PATH = "/webhooks/validate-clustertopology"
AUTHORIZER_PATH = "/webhooks/authorizer-webhook"

Operation = Literal["CREATE", "UPDATE", "DELETE"]

_CREATE_AND_UPDATE: tuple[Operation, ...] = ("CREATE", "UPDATE")
_ALL_OPERATIONS: tuple[Operation, ...] = (*_CREATE_AND_UPDATE, "DELETE")


@dataclass(frozen=True, slots=True)
class WebhookRule:
    """Operations on resources of one version of an API group."""

    group: str
    version: str
    resources: tuple[str, ...]
    operations: tuple[Operation, ...]


@dataclass(frozen=True, slots=True)
class WebhookDefinition:
    """One webhook. `managed_only`: called only for objects that the operator manages."""

    name: str
    path: str
    rules: tuple[WebhookRule, ...]
    mutating: bool = False
    managed_only: bool = False


_SET_RULE = WebhookRule(grove.GROUP, grove.VERSION, ("podcliquesets",), _CREATE_AND_UPDATE)
_TOPOLOGY_RULE = WebhookRule(
    grove.GROUP, grove.VERSION, ("clustertopologybindings",), _CREATE_AND_UPDATE
)

DEFAULTING_WEBHOOK = WebhookDefinition(
    "default.podcliqueset.grove.io", DEFAULTS_PATH, (_SET_RULE,), mutating=True
)
VALIDATING_WEBHOOK = WebhookDefinition(
    "validate.podcliqueset.grove.io", VALIDATION_PATH, (_SET_RULE,)
)
TOPOLOGY_WEBHOOK = WebhookDefinition(
    "validate.clustertopology.grove.io", TOPOLOGY_PATH, (_TOPOLOGY_RULE,)
)
AUTHORIZER_WEBHOOK = WebhookDefinition(
    "authorizer.podcliqueset.grove.io",
    AUTHORIZER_PATH,
    (
        WebhookRule("", "v1", ("services", "serviceaccounts", "secrets"), _ALL_OPERATIONS),
        WebhookRule("", "v1", ("pods",), ("UPDATE",)),
        WebhookRule("rbac.authorization.k8s.io", "v1", ("roles", "rolebindings"), _ALL_OPERATIONS),
        WebhookRule("autoscaling", "v2", ("horizontalpodautoscalers",), _ALL_OPERATIONS),
        WebhookRule(
            grove.GROUP, grove.VERSION, ("podcliques", "podcliquescalinggroups"), _ALL_OPERATIONS
        ),
        WebhookRule(podgang.GROUP, podgang.VERSION, ("podgangs",), _ALL_OPERATIONS),
    ),
    managed_only=True,
)


def list_webhooks(settings: OperatorSettings) -> tuple[WebhookDefinition, ...]:
    """The webhooks of an operator with these settings."""
    return (
        DEFAULTING_WEBHOOK,
        VALIDATING_WEBHOOK,
        TOPOLOGY_WEBHOOK,
        *((AUTHORIZER_WEBHOOK,) if settings.authorizer else ()),
    )
