"""Which plug-ins are asked, in which order: Kubernetes' own order of those that are here."""

from kilonova.local.admission.chain import Plugin
from kilonova.local.admission.namespaces import NamespaceLifecycle
from kilonova.local.admission.priority import Priority
from kilonova.local.storage import Store


def standard_plugins(store: Store) -> list[Plugin]:
    """What every embedded cluster asks before a write; webhooks come after these."""
    namespaces = store.collection("namespaces")
    classes = store.collection("priorityclasses.scheduling.k8s.io")
    return [
        NamespaceLifecycle(lambda name: store.newest(namespaces, name)),
        Priority(classes),
    ]
