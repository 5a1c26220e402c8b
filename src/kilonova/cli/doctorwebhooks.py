"""What `kilonova doctor` makes of admission webhooks: who is asked, and whether one can be."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from cryptography import x509

from kilonova.cli.doctorfacts import Webhook
from kilonova.cli.doctorfinding import Finding, ok, problem, warning

_SOON = 7 * 24 * 3600.0


def webhook_findings(webhooks: Sequence[Webhook] | None, now: float) -> Iterator[Finding]:
    """What is wrong with each; one line if nothing is."""
    if webhooks is None:
        yield warning("webhooks", "can not be seen", "ask for the right to list them")
        return
    found = [finding for webhook in webhooks for finding in _findings(webhook, now)]
    yield from found
    if not found:
        yield ok("webhooks", f"{len(webhooks)} in order" if webhooks else "there are none")


def _findings(webhook: Webhook, now: float) -> Iterator[Finding]:
    what = f"webhook {webhook.configuration}/{webhook.name}"
    refuses = webhook.failure_policy != "Ignore"
    effect = "so what it guards is refused" if refuses else "so it is passed over"
    level = problem if refuses else warning
    if webhook.endpoints == 0:
        yield level(
            what,
            f"nothing answers behind Service {webhook.service}, {effect}",
            f"start what serves it, or delete the configuration {webhook.configuration}",
        )
    if not webhook.ca_pem:
        if webhook.service:
            yield level(what, f"has no CA, {effect}", "start what serves it, which writes the CA")
        return
    try:
        certificates = x509.load_pem_x509_certificates(webhook.ca_pem)
    except ValueError:
        yield level(what, f"its caBundle holds no certificate, {effect}", "write it anew, in PEM")
        return
    # Of several, as while one follows another, the last to expire counts.
    ends = max(each.not_valid_after_utc for each in certificates)
    left = (ends - datetime.fromtimestamp(now, UTC)).total_seconds()
    if left <= 0:
        yield level(what, f"its CA expired on {ends:%Y-%m-%d}, {effect}", "renew it")
    elif left < _SOON:
        yield warning(what, f"its CA expires on {ends:%Y-%m-%d}", "renew it")
