"""Telling the API server to ask: webhook configurations, and putting them there."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never
from urllib.parse import urlsplit

from kilonova.api.grove import names
from kilonova.api.json import JsonObject
from kilonova.kube import Client
from kilonova.kube.admission.configuration import CONFIGURATIONS
from kilonova.workloads.admission.hooks import Hook, hooks_of
from kilonova.workloads.settings import Settings

NAME = "kilonova-operator"
"""Of both configurations, for `ensure_ca_bundle` to find."""
_GROUP = "admissionregistration.k8s.io/v1"
_SECONDS = 10


@dataclass(frozen=True, slots=True)
class AtService:
    """The operator answers behind a Service of the cluster."""

    name: str
    namespace: str
    port: int = 443


@dataclass(frozen=True, slots=True)
class AtUrl:
    """The operator runs elsewhere, and answers at an address: `https://host:port`."""

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


Address = AtService | AtUrl
"""Where the API server finds the webhooks."""


def configurations(address: Address, ca_pem: bytes, settings: Settings) -> list[JsonObject]:
    """The objects by which the API server knows whom to ask, and whom to trust."""
    all_hooks = hooks_of(settings)
    return [
        _configuration("Mutating", [each for each in all_hooks if each.mutating], address, ca_pem),
        _configuration(
            "Validating", [each for each in all_hooks if not each.mutating], address, ca_pem
        ),
    ]


async def install_webhooks(
    client: Client, address: Address, ca_pem: bytes, settings: Settings
) -> None:
    """Put the configurations there, or mend them; writes nothing where they are as they should be.

    Fit for an admission server's `publish`: a renewed authority, and a configuration that
    somebody deleted, are put back at its next look.
    """
    for resource, wanted in zip(
        CONFIGURATIONS, configurations(address, ca_pem, settings), strict=True
    ):
        await client.apply(resource, NAME, wanted)


def _configuration(
    kind: str, chosen: Sequence[Hook], address: Address, ca_pem: bytes
) -> JsonObject:
    return {
        "apiVersion": _GROUP,
        "kind": f"{kind}WebhookConfiguration",
        "metadata": {"name": NAME, "labels": {names.MANAGED_BY: names.OPERATOR}},
        "webhooks": [_webhook(each, address, ca_pem) for each in chosen],
    }


def _webhook(hook: Hook, address: Address, ca_pem: bytes) -> JsonObject:
    webhook: JsonObject = {
        "name": hook.name,
        "clientConfig": {
            **_client_config(address, hook.path),
            "caBundle": base64.b64encode(ca_pem).decode(),
        },
        "rules": [
            {
                "apiGroups": [each.group],
                "apiVersions": [each.version],
                "resources": list(each.resources),
                "operations": list(each.operations),
            }
            for each in hook.interests
        ],
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "timeoutSeconds": _SECONDS,
        "admissionReviewVersions": ["v1"],
    }
    if hook.ours_only:
        webhook["objectSelector"] = {"matchLabels": {names.MANAGED_BY: names.OPERATOR}}
    return webhook


def _client_config(address: Address, path: str) -> JsonObject:
    match address:
        case AtUrl():
            return {"url": address.url.rstrip("/") + path}
        case AtService():
            service = {"name": address.name, "namespace": address.namespace}
            return {"service": {**service, "path": path, "port": address.port}}
        case _:
            assert_never(address)
