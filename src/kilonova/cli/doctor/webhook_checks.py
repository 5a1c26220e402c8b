"""Checks of admission webhooks: endpoints and CA certificates."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from cryptography import x509

from kilonova.cli.doctor.facts import WebhookFacts
from kilonova.component.finding import Finding, ok, problem, warning

_EXPIRY_WARNING_SECONDS = 7 * 24 * 3600.0


def check_webhooks(webhooks: Sequence[WebhookFacts] | None, now: float) -> Iterator[Finding]:
    """The problems of each webhook; a single ok if there are none."""
    if webhooks is None:
        yield warning("webhooks", "cannot be listed", "ask for permission to list them")
        return
    findings = [finding for webhook in webhooks for finding in _check_webhook(webhook, now)]
    yield from findings
    if not findings:
        yield ok("webhooks", f"{len(webhooks)} without problems" if webhooks else "there are none")


def _check_webhook(webhook: WebhookFacts, now: float) -> Iterator[Finding]:
    what = f"webhook {webhook.configuration}/{webhook.name}"
    fails_closed = webhook.failure_policy != "Ignore"
    effect = "so its requests are rejected" if fails_closed else "so it is ignored"
    level = problem if fails_closed else warning
    if webhook.endpoints == 0:
        yield level(
            what,
            f"Service {webhook.service} has no ready endpoints, {effect}",
            f"start its server, or delete the configuration {webhook.configuration}",
        )
    if not webhook.ca_pem:
        if webhook.service:
            yield level(what, f"has no caBundle, {effect}", "start its server, which writes it")
        return
    try:
        certificates = x509.load_pem_x509_certificates(webhook.ca_pem)
    except ValueError:
        yield level(what, f"its caBundle contains no certificate, {effect}", "write it as PEM")
        return
    # During a rotation there are several: the last to expire counts.
    expiry = max(each.not_valid_after_utc for each in certificates)
    remaining = (expiry - datetime.fromtimestamp(now, UTC)).total_seconds()
    if remaining <= 0:
        yield level(what, f"its CA expired on {expiry:%Y-%m-%d}, {effect}", "renew it")
    elif remaining < _EXPIRY_WARNING_SECONDS:
        yield warning(what, f"its CA expires on {expiry:%Y-%m-%d}", "renew it")
