"""Admission webhooks: remote handlers, over HTTPS, that may change or reject a write.

A *webhook* is one entry of a Mutating- or ValidatingWebhookConfiguration, compiled when it is first
needed. A *review* is the request to it and its response. A call *fails* if the webhook cannot be
reached or its response is invalid; then its failurePolicy decides about the write.
"""

from kilonova.local.apiserver.admission.webhooks.client import WebhookClient
from kilonova.local.apiserver.admission.webhooks.mutating import MutatingWebhookPlugin
from kilonova.local.apiserver.admission.webhooks.validating import ValidatingWebhookPlugin

__all__ = ["MutatingWebhookPlugin", "ValidatingWebhookPlugin", "WebhookClient"]
