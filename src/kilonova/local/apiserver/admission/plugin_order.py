"""The order of the admission plugins, which is Kubernetes' order."""

from collections.abc import Sequence

from kilonova.kube.admission.in_process import InProcessWebhook
from kilonova.local.apiserver.admission.chain import Plugin
from kilonova.local.apiserver.admission.context import AdmissionContext
from kilonova.local.apiserver.admission.plugins.default_storage_class import DefaultStorageClass
from kilonova.local.apiserver.admission.plugins.limit_ranger import LimitRanger
from kilonova.local.apiserver.admission.plugins.namespace_lifecycle import NamespaceLifecycle
from kilonova.local.apiserver.admission.plugins.pod_topology_labels import PodTopologyLabels
from kilonova.local.apiserver.admission.plugins.priority import PriorityPlugin
from kilonova.local.apiserver.admission.plugins.resource_quota import ResourceQuotaPlugin
from kilonova.local.apiserver.admission.plugins.runtime_class import RuntimeClassPlugin
from kilonova.local.apiserver.admission.plugins.service_account import ServiceAccountPlugin
from kilonova.local.apiserver.admission.policies import MutatingPolicyPlugin, ValidatingPolicyPlugin
from kilonova.local.apiserver.admission.webhooks import (
    MutatingWebhookPlugin,
    ValidatingWebhookPlugin,
    WebhookClient,
)
from kilonova.local.apiserver.admission.webhooks.in_process import (
    InProcessWebhooks,
)
from kilonova.local.clock import IdGenerator


def default_plugins(
    context: AdmissionContext,
    webhook_client: WebhookClient,
    id_generator: IdGenerator,
    webhooks: Sequence[InProcessWebhook] = (),
) -> list[Plugin]:
    """The plugins of every embedded cluster.

    Webhooks over the network run after the in-process plugins, and before quotas.
    """
    store = context.store
    namespaces = store.collection("namespaces")
    classes = store.collection("priorityclasses.scheduling.k8s.io")
    return [
        NamespaceLifecycle(lambda name: store.newest_entry(namespaces, name)),
        LimitRanger(store),
        ServiceAccountPlugin(store, id_generator),
        PriorityPlugin(classes),
        DefaultStorageClass(store.collection("storageclasses.storage.k8s.io")),
        RuntimeClassPlugin(store.collection("runtimeclasses.node.k8s.io")),
        PodTopologyLabels(store.collection("nodes")),
        InProcessWebhooks(context, webhooks, id_generator.uid),
        MutatingPolicyPlugin(context),
        MutatingWebhookPlugin(context, webhook_client, id_generator.uid),
        ValidatingPolicyPlugin(context),
        ValidatingWebhookPlugin(context, webhook_client, id_generator.uid),
        ResourceQuotaPlugin(store, context.served_kinds),
    ]
