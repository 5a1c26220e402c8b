"""Admission control: plugins that run before a write, first to mutate the object, then to validate
it.

`AdmissionChain` runs the built-in `plugins`, the `policies` and the `webhooks` in Kubernetes' order
(`plugin_order`). Plugins run in process. One that does not await keeps the write atomic; after one
that awaits (a webhook) the registry checks that the object has not changed meanwhile.
"""

from kilonova.local.apiserver.admission.chain import AdmissionChain, Attributes, Plugin
from kilonova.local.apiserver.admission.context import AdmissionContext
from kilonova.local.apiserver.admission.plugin_order import default_plugins
from kilonova.local.apiserver.admission.plugins.namespace_lifecycle import NamespaceLifecycle
from kilonova.local.apiserver.admission.plugins.priority import PriorityPlugin
from kilonova.local.apiserver.admission.webhooks import WebhookClient

__all__ = [
    "AdmissionChain",
    "AdmissionContext",
    "Attributes",
    "NamespaceLifecycle",
    "Plugin",
    "PriorityPlugin",
    "WebhookClient",
    "default_plugins",
]
