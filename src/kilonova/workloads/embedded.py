"""The PodCliqueSet operator in the cluster of `kilonova up`.

The same controllers and admission handlers as `kilonova run operator`, with an in-process client,
and with webhooks that the API server calls as functions.
"""

from collections.abc import Sequence
from dataclasses import replace

from kilonova.api.scheduling_names import SCHEDULER_NAME
from kilonova.component.embedded import EmbeddedComponent, EmbeddedContext
from kilonova.kube import Runnable
from kilonova.kube.admission.in_process import InProcessWebhook
from kilonova.kube.admission.registration import list_in_process_webhooks
from kilonova.workloads.admission import build_handlers, list_webhooks
from kilonova.workloads.metrics import WorkloadMetrics
from kilonova.workloads.operator import build_operator
from kilonova.workloads.settings import OperatorSettings


def build_embedded_operator(context: EmbeddedContext) -> EmbeddedComponent:
    """The operator, its webhooks, and its metrics, which the API server exposes."""
    settings = _settings_for(context)

    def build_webhooks() -> Sequence[InProcessWebhook]:
        handlers = build_handlers(context.client, settings, operator=context.user)
        return list_in_process_webhooks(list_webhooks(settings), handlers)

    def build_runnables() -> Sequence[Runnable]:
        cluster = context.cluster
        operator = build_operator(
            context.client,
            settings,
            now=cluster.clock.now,
            monotonic=cluster.clock.monotonic,
            new_id=cluster.new_id,
        )
        registry = cluster.component_registry(context.name)
        metrics = WorkloadMetrics(operator.caches, registry, cluster.clock.now)
        return [*operator.runnables, *operator.leader_runnables, metrics]

    return EmbeddedComponent(build_runnables=build_runnables, build_webhooks=build_webhooks)


def _settings_for(context: EmbeddedContext) -> OperatorSettings:
    """With our scheduler in the cluster, it is the default of PodCliqueSets: the first one."""
    settings = OperatorSettings()
    if "scheduler" not in context.selected:
        return settings
    others = (each for each in settings.schedulers if each != SCHEDULER_NAME)
    return replace(settings, schedulers=(SCHEDULER_NAME, *others))
