"""Webhooks: others, over HTTPS, who may change or refuse a write.

A *webhook* is one entry of a Mutating- or ValidatingWebhookConfiguration, compiled when the
configuration is stored. A *review* is what it is sent and what it answers. A webhook that cannot
be asked, or whose answer makes no sense, has *failed*; whether the write goes on then is for its
failurePolicy to say.
"""

from kilonova.local.admission.webhooks.caller import Caller
from kilonova.local.admission.webhooks.mutating import MutatingWebhooks
from kilonova.local.admission.webhooks.validating import ValidatingWebhooks

__all__ = ["Caller", "MutatingWebhooks", "ValidatingWebhooks"]
