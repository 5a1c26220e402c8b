"""Who is asked before a write: plug-ins, in order, first to change the object, then to refuse it.

Plug-ins run in process. One that answers without waiting keeps the write atomic; one that
waits (a webhook) makes the registry check that nothing moved meanwhile.
"""

from kilonova.local.admission.chain import Admission, Attributes, Operation, Plugin
from kilonova.local.admission.namespaces import NamespaceLifecycle
from kilonova.local.admission.priority import Priority
from kilonova.local.admission.scope import Scope
from kilonova.local.admission.suite import standard_plugins
from kilonova.local.admission.webhooks import Caller

__all__ = [
    "Admission",
    "Attributes",
    "Caller",
    "NamespaceLifecycle",
    "Operation",
    "Plugin",
    "Priority",
    "Scope",
    "standard_plugins",
]
