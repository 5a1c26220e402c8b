"""Webhooks of a configuration, compiled."""

from base64 import b64decode
from dataclasses import dataclass
from urllib.parse import urlsplit

from kilonova.api.json import JsonObject
from kilonova.local.apimachinery.unstructured import nested_object, nested_objects, nested_strings
from kilonova.local.apiserver.admission.expressions import ExpressionCompiler
from kilonova.local.apiserver.admission.match_conditions import (
    MatchConditions,
    compile_match_conditions,
)
from kilonova.local.apiserver.admission.matching import MatchCriteria


@dataclass(frozen=True, slots=True)
class Webhook:
    """One webhook. `id` is unique."""

    id: str
    name: str
    criteria: MatchCriteria
    conditions: MatchConditions | None
    compiler: ExpressionCompiler | None
    url: str
    ca_bundle: bytes
    ignore_failures: bool
    timeout: int
    reinvocable: bool
    allows_dry_run: bool
    accepts_v1: bool


def read_webhooks(configuration: JsonObject) -> list[Webhook]:
    """The webhooks of a stored configuration, in their order."""
    owner = configuration["metadata"]["name"]
    return [
        _parse_webhook(f"{owner}/{webhook['name']}/{index}", webhook)
        for index, webhook in enumerate(nested_objects(configuration, "webhooks"))
    ]


def _parse_webhook(id: str, webhook: JsonObject) -> Webhook:
    fails_open = webhook.get("failurePolicy") == "Ignore"
    conditions = nested_objects(webhook, "matchConditions")
    compiler = ExpressionCompiler() if conditions else None
    client = nested_object(webhook, "clientConfig")
    return Webhook(
        id=id,
        name=webhook["name"],
        criteria=MatchCriteria.from_json(webhook, "rules"),
        conditions=compile_match_conditions(conditions, compiler, fails_open) if compiler else None,
        compiler=compiler,
        url=_parse_url(client),
        ca_bundle=b64decode(client.get("caBundle") or ""),
        ignore_failures=fails_open,
        timeout=webhook.get("timeoutSeconds") or 10,
        reinvocable=webhook.get("reinvocationPolicy") == "IfNeeded",
        allows_dry_run=webhook.get("sideEffects") in ("None", "NoneOnDryRun"),
        accepts_v1="v1" in nested_strings(webhook, "admissionReviewVersions"),
    )


def _parse_url(client: JsonObject) -> str:
    service = client.get("service")
    if service:
        host = f"{service['name']}.{service['namespace']}.svc:{service.get('port') or 443}"
        return f"https://{host}/{service.get('path', '').removeprefix('/')}"
    url: str = client.get("url", "")
    return url if urlsplit(url).path else f"{url}/"
