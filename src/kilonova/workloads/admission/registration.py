"""Webhook configurations: how the API server finds the operator's webhooks."""

from kilonova.api.grove import names
from kilonova.api.json import JsonObject
from kilonova.kube import Client
from kilonova.kube.admission.registration import (
    ServiceEndpoint,
    UrlEndpoint,
    WebhookEndpoint,
    apply_webhook_configurations,
    build_webhook_configurations,
)
from kilonova.workloads.admission.webhooks import list_webhooks
from kilonova.workloads.settings import OperatorSettings

__all__ = [
    "CONFIGURATION_NAME",
    "ServiceEndpoint",
    "UrlEndpoint",
    "WebhookEndpoint",
    "build_configurations",
    "install_webhooks",
]

CONFIGURATION_NAME = "kilonova-operator"
"""The name of both configurations; `ensure_ca_bundle` finds them by it."""


def build_configurations(
    endpoint: WebhookEndpoint, ca_pem: bytes, settings: OperatorSettings
) -> list[JsonObject]:
    """The webhook configurations, with the endpoint and its CA bundle."""
    labels = {names.MANAGED_BY: names.OPERATOR}
    webhooks = list_webhooks(settings)
    return build_webhook_configurations(CONFIGURATION_NAME, labels, webhooks, endpoint, ca_pem)


async def install_webhooks(
    client: Client, endpoint: WebhookEndpoint, ca_pem: bytes, settings: OperatorSettings
) -> None:
    """Create or repair the configurations; writes nothing if they are up to date.

    Suitable as an admission server's `publish`: a renewed CA or a deleted configuration is restored
    at its next run.
    """
    await apply_webhook_configurations(client, build_configurations(endpoint, ca_pem, settings))
