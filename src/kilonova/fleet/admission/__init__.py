"""Admission of Deployments of the fleet: validation beyond the CRD schema.

Releases are validated as what they are, parts of instances, by their own webhooks, and that they
are immutable by their schema. `validation` is pure. What depends on other objects, such as whether
a release exists, is not rejected but reported in the status: objects may be created in any order.
"""

from kilonova.fleet.admission.handlers import build_handlers, build_webhook_set
from kilonova.fleet.admission.webhooks import CONFIGURATION_NAME, list_webhooks

__all__ = ["CONFIGURATION_NAME", "build_handlers", "build_webhook_set", "list_webhooks"]
