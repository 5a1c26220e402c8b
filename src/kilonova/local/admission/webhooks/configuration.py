"""Webhooks as their configurations describe them, ready to be asked."""

from base64 import b64decode
from dataclasses import dataclass
from urllib.parse import urlsplit

from kilonova.api.json import JsonObject
from kilonova.local.admission.conditions import Conditions, compiled_conditions
from kilonova.local.admission.expressions import Language
from kilonova.local.admission.matching import Criteria
from kilonova.local.kinds.walk import objects, part, strings


@dataclass(frozen=True, slots=True)
class Webhook:
    """One webhook. `id` tells it from all others."""

    id: str
    name: str
    criteria: Criteria
    conditions: Conditions | None
    language: Language | None
    url: str
    ca_bundle: bytes
    fails_open: bool
    timeout: int
    asked_again: bool
    allows_dry_run: bool
    speaks_v1: bool


def read_webhooks(configuration: JsonObject) -> list[Webhook]:
    """The webhooks of a stored configuration, in their order."""
    owner = configuration["metadata"]["name"]
    return [
        _webhook(f"{owner}/{webhook['name']}/{place}", webhook)
        for place, webhook in enumerate(objects(configuration, "webhooks"))
    ]


def _webhook(id: str, webhook: JsonObject) -> Webhook:
    fails_open = webhook.get("failurePolicy") == "Ignore"
    conditions = objects(webhook, "matchConditions")
    language = Language() if conditions else None
    client = part(webhook, "clientConfig")
    return Webhook(
        id=id,
        name=webhook["name"],
        criteria=Criteria.read(webhook, "rules"),
        conditions=compiled_conditions(conditions, language, fails_open) if language else None,
        language=language,
        url=_url(client),
        ca_bundle=b64decode(client.get("caBundle") or ""),
        fails_open=fails_open,
        timeout=webhook.get("timeoutSeconds") or 10,
        asked_again=webhook.get("reinvocationPolicy") == "IfNeeded",
        allows_dry_run=webhook.get("sideEffects") in ("None", "NoneOnDryRun"),
        speaks_v1="v1" in strings(webhook, "admissionReviewVersions"),
    )


def _url(client: JsonObject) -> str:
    service = client.get("service")
    if service:
        host = f"{service['name']}.{service['namespace']}.svc:{service.get('port') or 443}"
        return f"https://{host}/{service.get('path', '').removeprefix('/')}"
    url: str = client.get("url", "")
    return url if urlsplit(url).path else f"{url}/"
