"""Admission of InferenceServices: validation beyond the CRD's schema and its rules.

There are no defaults to write: the schema has them. `groups`, `gateway`, `access` and `durations`
have the rules: pure, with path, value and fix; `validation` puts them together, with the
warnings of `ineffective_fields`. What depends on
other objects is not rejected here but reported in the status, as these come and go. On a cluster
the operator serves the webhook (`build_webhook_set`), the embedded cluster calls the same handler.
"""

from kilonova.serving.admission.handlers import build_handlers, build_webhook_set
from kilonova.serving.admission.webhooks import CONFIGURATION_NAME, list_webhooks

__all__ = ["CONFIGURATION_NAME", "build_handlers", "build_webhook_set", "list_webhooks"]
