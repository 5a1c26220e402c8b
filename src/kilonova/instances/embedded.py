"""Controllers and webhooks of inference engines in the cluster of `kilonova up`."""

from collections.abc import Sequence

from kilonova.api.scheduling_names import DEFAULT_SCHEDULER_NAME
from kilonova.component.embedded import EmbeddedComponent, EmbeddedContext
from kilonova.instances.admission import build_handlers, list_webhooks
from kilonova.instances.assembly import build_instance_controllers
from kilonova.instances.settings import InstanceSettings
from kilonova.kube import Runnable
from kilonova.kube.admission.registration import list_in_process_webhooks


def build_embedded_instances(context: EmbeddedContext) -> EmbeddedComponent:
    """Controllers and webhooks; the API server exposes the metrics."""
    cluster, settings = context.cluster, _settings_for(context)

    def build_runnables() -> Sequence[Runnable]:
        controllers = build_instance_controllers(
            context.client,
            settings,
            now=cluster.clock.now,
            monotonic=cluster.clock.monotonic,
            registry=cluster.component_registry(context.name),
            new_id=cluster.new_id,
        )
        return [*controllers.runnables, *controllers.leader_runnables]

    return EmbeddedComponent(
        build_runnables=build_runnables,
        build_webhooks=lambda: list_in_process_webhooks(list_webhooks(), build_handlers()),
    )


def _settings_for(context: EmbeddedContext) -> InstanceSettings:
    """Without our scheduler in the cluster, pods are left to the default one."""
    if "scheduler" in context.selected:
        return InstanceSettings()
    return InstanceSettings(scheduler_name=DEFAULT_SCHEDULER_NAME)
