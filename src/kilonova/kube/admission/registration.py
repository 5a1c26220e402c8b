"""Webhook configurations: how the API server finds the webhooks of a component."""

import base64
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import assert_never
from urllib.parse import urlsplit

from kilonova.api.json import JsonObject
from kilonova.kube.admission.ca_bundle import WEBHOOK_CONFIGURATIONS
from kilonova.kube.admission.in_process import InProcessWebhook, Operation
from kilonova.kube.admission.server import Handler
from kilonova.kube.client.client import Client

_API_VERSION = "admissionregistration.k8s.io/v1"
_TIMEOUT_SECONDS = 10


@dataclass(frozen=True, slots=True)
class WebhookRule:
    """Operations on resources of one version of an API group."""

    group: str
    version: str
    resources: tuple[str, ...]
    operations: tuple[Operation, ...]


@dataclass(frozen=True, slots=True)
class WebhookDefinition:
    """One webhook. With `match_labels` it is called only for objects that have these labels."""

    name: str
    path: str
    rules: tuple[WebhookRule, ...]
    mutating: bool = False
    match_labels: Mapping[str, str] = field(default_factory=dict[str, str])


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


@dataclass(frozen=True, slots=True)
class WebhookSet:
    """The webhooks of a component, and the handlers of their paths."""

    name: str
    """The name of their two configurations."""
    labels: Mapping[str, str]
    webhooks: tuple[WebhookDefinition, ...]
    handlers: Mapping[str, Handler]

    async def install(self, client: Client, endpoint: WebhookEndpoint, ca_pem: bytes) -> None:
        """Create or repair the configurations; writes nothing if they are up to date."""
        wanted = build_webhook_configurations(
            self.name, self.labels, self.webhooks, endpoint, ca_pem
        )
        await apply_webhook_configurations(client, wanted)


def build_webhook_configurations(
    name: str,
    labels: Mapping[str, str],
    webhooks: Sequence[WebhookDefinition],
    endpoint: WebhookEndpoint,
    ca_pem: bytes,
) -> list[JsonObject]:
    """The two configurations of a name, with the endpoint and its CA bundle: of the webhooks that
    change objects, and of those that validate them."""
    parts = (
        ("Mutating", [each for each in webhooks if each.mutating]),
        ("Validating", [each for each in webhooks if not each.mutating]),
    )
    return [_build_configuration(kind, name, labels, own, endpoint, ca_pem) for kind, own in parts]


def list_in_process_webhooks(
    webhooks: Iterable[WebhookDefinition], handlers: Mapping[str, Handler]
) -> list[InProcessWebhook]:
    """The same webhooks for an API server in this process, which calls their handlers."""
    return [
        InProcessWebhook(
            hook.name, handlers[hook.path], rule.group, resource, rule.operations, hook.mutating
        )
        for hook in webhooks
        for rule in hook.rules
        for resource in rule.resources
    ]


async def apply_webhook_configurations(
    client: Client, configurations: Sequence[JsonObject]
) -> None:
    """Create or repair the configurations; writes nothing if they are up to date."""
    for resource, wanted in zip(WEBHOOK_CONFIGURATIONS, configurations, strict=True):
        await client.apply(resource, wanted["metadata"]["name"], wanted)


def _build_configuration(
    kind: str,
    name: str,
    labels: Mapping[str, str],
    webhooks: Sequence[WebhookDefinition],
    endpoint: WebhookEndpoint,
    ca_pem: bytes,
) -> JsonObject:
    return {
        "apiVersion": _API_VERSION,
        "kind": f"{kind}WebhookConfiguration",
        "metadata": {"name": name, "labels": dict(labels)},
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
    if webhook_definition.match_labels:
        webhook["objectSelector"] = {"matchLabels": dict(webhook_definition.match_labels)}
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
