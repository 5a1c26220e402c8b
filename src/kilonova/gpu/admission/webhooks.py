"""The webhooks of GPU objects: their rules and paths."""

from kilonova.api import kgwe
from kilonova.kube.admission.in_process import Operation
from kilonova.kube.admission.registration import (
    WebhookDefinition,
    WebhookRule,
)

DEFAULTS_PATH = "/webhooks/default-gpuworkload"
WORKLOAD_PATH = "/webhooks/validate-gpuworkload"
STRATEGY_PATH = "/webhooks/validate-migstrategy"
CONFIGURATION_NAME = "kilonova-gpu"
"""The name of both configurations."""

_OPERATIONS: tuple[Operation, ...] = ("CREATE", "UPDATE")


def list_webhooks() -> tuple[WebhookDefinition, ...]:
    """All webhooks."""
    workloads = (_rule("gpuworkloads"),)
    return (
        WebhookDefinition("default.gpuworkload.kgwe.nvidia.io", DEFAULTS_PATH, workloads, True),
        WebhookDefinition("validate.gpuworkload.kgwe.nvidia.io", WORKLOAD_PATH, workloads),
        WebhookDefinition(
            "validate.migstrategy.kgwe.nvidia.io", STRATEGY_PATH, (_rule("migstrategies"),)
        ),
    )


def _rule(plural: str) -> WebhookRule:
    return WebhookRule(kgwe.GROUP, kgwe.VERSION, (plural,), _OPERATIONS)
