"""Webhook configurations: how the API server finds the operator's webhooks."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never
from urllib.parse import urlsplit

from kilonova.api.grove import names
from kilonova.api.json import JsonObject
from kilonova.kube import Client
from kilonova.kube.admission.ca_bundle import WEBHOOK_CONFIGURATIONS
from kilonova.workloads.admission.webhooks import WebhookDefinition, list_webhooks
from kilonova.workloads.settings import OperatorSettings

CONFIGURATION_NAME = "kilonova-operator"
"""The name of both configurations; `ensure_ca_bundle` finds them by it."""
_API_VERSION = "admissionregistration.k8s.io/v1"
_TIMEOUT_SECONDS = 10


@dataclass(frozen=True, slots=True)
class ServiceEndpoint:
    """The webhooks are served behind a Service of the cluster."""

    name: str
    namespace: str
    port: int = 443


@dataclass(frozen=True, slots=True)
class UrlEndpoint:
    """The webhooks are served outside the cluster, at a URL `https://host:port`."""

    url: str

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme != "https" or not parts.hostname:
            raise ValueError(f'webhook URL "{self.url}": must be https://HOST[:PORT][/PATH]')
        if parts.query or parts.fragment or parts.username is not None:
            raise ValueError(
                f'webhook URL "{parts._replace(netloc=parts.hostname).geturl()}": '
                "must have no user, query or fragment"
            )


WebhookEndpoint = ServiceEndpoint | UrlEndpoint
"""Where the API server reaches the webhooks."""


def build_configurations(
    endpoint: WebhookEndpoint, ca_pem: bytes, settings: OperatorSettings
) -> list[JsonObject]:
    """The webhook configurations, with the endpoint and its CA bundle."""
    webhooks = list_webhooks(settings)
    return [
        _build_configuration(
            "Mutating", [each for each in webhooks if each.mutating], endpoint, ca_pem
        ),
        _build_configuration(
            "Validating", [each for each in webhooks if not each.mutating], endpoint, ca_pem
        ),
    ]


async def install_webhooks(
    client: Client, endpoint: WebhookEndpoint, ca_pem: bytes, settings: OperatorSettings
) -> None:
    """Create or repair the configurations; writes nothing if they are up to date.

    Suitable as an admission server's `publish`: a renewed CA or a deleted configuration is restored
    at its next run.
    """
    for resource, wanted in zip(
        WEBHOOK_CONFIGURATIONS, build_configurations(endpoint, ca_pem, settings), strict=True
    ):
        await client.apply(resource, CONFIGURATION_NAME, wanted)


def _build_configuration(
    kind: str, webhooks: Sequence[WebhookDefinition], endpoint: WebhookEndpoint, ca_pem: bytes
) -> JsonObject:
    return {
        "apiVersion": _API_VERSION,
        "kind": f"{kind}WebhookConfiguration",
        "metadata": {"name": CONFIGURATION_NAME, "labels": {names.MANAGED_BY: names.OPERATOR}},
        "webhooks": [_build_webhook(each, endpoint, ca_pem) for each in webhooks],
    }


def _build_webhook(
    webhook_definition: WebhookDefinition, endpoint: WebhookEndpoint, ca_pem: bytes
) -> JsonObject:
    webhook: JsonObject = {
        "name": webhook_definition.name,
        "clientConfig": {
            **_build_client_config(endpoint, webhook_definition.path),
            "caBundle": base64.b64encode(ca_pem).decode(),
        },
        "rules": [
            {
                "apiGroups": [each.group],
                "apiVersions": [each.version],
                "resources": list(each.resources),
                "operations": list(each.operations),
            }
            for each in webhook_definition.rules
        ],
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "timeoutSeconds": _TIMEOUT_SECONDS,
        "admissionReviewVersions": ["v1"],
    }
    if webhook_definition.managed_only:
        webhook["objectSelector"] = {"matchLabels": {names.MANAGED_BY: names.OPERATOR}}
    return webhook


def _build_client_config(endpoint: WebhookEndpoint, path: str) -> JsonObject:
    match endpoint:
        case UrlEndpoint():
            return {"url": endpoint.url.rstrip("/") + path}
        case ServiceEndpoint():
            service = {"name": endpoint.name, "namespace": endpoint.namespace}
            return {"service": {**service, "path": path, "port": endpoint.port}}
        case _:
            assert_never(endpoint)
