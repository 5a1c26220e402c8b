"""The webhooks of GPU objects: their rules and paths, and how the API server finds them."""

from kilonova.api import kgwe
from kilonova.api.grove import names as grove_names
from kilonova.api.kgwe import names
from kilonova.kube import Client
from kilonova.kube.admission.in_process import Operation
from kilonova.kube.admission.registration import (
    WebhookDefinition,
    WebhookEndpoint,
    WebhookRule,
    apply_webhook_configurations,
    build_webhook_configurations,
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


async def install_webhooks(client: Client, endpoint: WebhookEndpoint, ca_pem: bytes) -> None:
    """Create or repair the configurations; writes nothing if they are up to date.

    Suitable as an admission server's `publish`.
    """
    labels = {grove_names.MANAGED_BY: names.MANAGER}
    wanted = build_webhook_configurations(
        CONFIGURATION_NAME, labels, list_webhooks(), endpoint, ca_pem
    )
    await apply_webhook_configurations(client, wanted)


def _rule(plural: str) -> WebhookRule:
    return WebhookRule(kgwe.GROUP, kgwe.VERSION, (plural,), _OPERATIONS)
