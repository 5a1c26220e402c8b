"""The operator's webhooks: their rules and paths."""

from kilonova.api import grove, podgang
from kilonova.api.grove import names
from kilonova.kube.admission.in_process import Operation
from kilonova.kube.admission.registration import WebhookDefinition, WebhookRule
from kilonova.workloads.settings import OperatorSettings

DEFAULTS_PATH = "/webhooks/default-podcliqueset"
VALIDATION_PATH = "/webhooks/validate-podcliqueset"
TOPOLOGY_PATH = "/webhooks/validate-clustertopology"
AUTHORIZER_PATH = "/webhooks/authorizer-webhook"

_CREATE_AND_UPDATE: tuple[Operation, ...] = ("CREATE", "UPDATE")
_ALL_OPERATIONS: tuple[Operation, ...] = (*_CREATE_AND_UPDATE, "DELETE")


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
    match_labels={names.MANAGED_BY: names.OPERATOR},
)


def list_webhooks(settings: OperatorSettings) -> tuple[WebhookDefinition, ...]:
    """The webhooks of an operator with these settings."""
    return (
        DEFAULTING_WEBHOOK,
        VALIDATING_WEBHOOK,
        TOPOLOGY_WEBHOOK,
        *((AUTHORIZER_WEBHOOK,) if settings.authorizer else ()),
    )
