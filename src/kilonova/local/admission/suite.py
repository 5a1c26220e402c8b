"""Which plug-ins are asked, in which order: Kubernetes' own order of those that are here."""

from collections.abc import Sequence

from kilonova.local.admission.chain import Plugin
from kilonova.local.admission.inprocess import InProcessWebhook, InProcessWebhooks
from kilonova.local.admission.limits import LimitRanger
from kilonova.local.admission.namespaces import NamespaceLifecycle
from kilonova.local.admission.policies import MutatingPolicies, ValidatingPolicies
from kilonova.local.admission.priority import Priority
from kilonova.local.admission.quota import ResourceQuotas
from kilonova.local.admission.runtimeclasses import RuntimeClasses
from kilonova.local.admission.scope import Scope
from kilonova.local.admission.serviceaccounts import ServiceAccounts
from kilonova.local.admission.storageclasses import DefaultStorageClass
from kilonova.local.admission.topology import PodTopologyLabels
from kilonova.local.admission.webhooks import Caller, MutatingWebhooks, ValidatingWebhooks
from kilonova.local.clock import Identities


def standard_plugins(
    scope: Scope,
    caller: Caller,
    identities: Identities,
    webhooks: Sequence[InProcessWebhook] = (),
) -> list[Plugin]:
    """What every embedded cluster asks before a write.

    Others, over the network, come after what is decided in process, and before quotas.
    """
    store = scope.store
    namespaces = store.collection("namespaces")
    classes = store.collection("priorityclasses.scheduling.k8s.io")
    return [
        NamespaceLifecycle(lambda name: store.newest(namespaces, name)),
        LimitRanger(store),
        ServiceAccounts(store, identities),
        Priority(classes),
        DefaultStorageClass(store.collection("storageclasses.storage.k8s.io")),
        RuntimeClasses(store.collection("runtimeclasses.node.k8s.io")),
        PodTopologyLabels(store.collection("nodes")),
        InProcessWebhooks(scope, webhooks, identities.uid),
        MutatingPolicies(scope),
        MutatingWebhooks(scope, caller, identities.uid),
        ValidatingPolicies(scope),
        ValidatingWebhooks(scope, caller, identities.uid),
        ResourceQuotas(store, scope.catalog),
    ]
