"""Controllers and webhooks of inference engines in the cluster of `kilonova up`."""

from collections.abc import Sequence

from kilonova.api.scheduling_names import DEFAULT_SCHEDULER_NAME, SCHEDULER_NAME
from kilonova.component.embedded import EmbeddedComponent, EmbeddedContext
from kilonova.instances.admission import build_handlers, list_webhooks
from kilonova.instances.artifact_sources import ArtifactSources
from kilonova.instances.assembly import build_instance_controllers
from kilonova.instances.settings import InstanceSettings
from kilonova.kube import Runnable
from kilonova.kube.admission.registration import list_in_process_webhooks


def build_embedded_instances(context: EmbeddedContext) -> EmbeddedComponent:
    """Controllers and webhooks; the API server exposes the metrics."""
    cluster, sources = context.cluster, _sources_of(context)
    settings = _settings_for(context, sources)

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
        build_webhooks=lambda: list_in_process_webhooks(
            list_webhooks(), build_handlers(sources=sources)
        ),
    )


def _settings_for(context: EmbeddedContext, sources: ArtifactSources) -> InstanceSettings:
    """Without our scheduler in the cluster, pods are left to the default one."""
    has_scheduler = "scheduler" in context.selected
    return InstanceSettings(
        scheduler_name=SCHEDULER_NAME if has_scheduler else DEFAULT_SCHEDULER_NAME,
        load_build=sources.load_build if sources.builds else None,
    )


def _sources_of(context: EmbeddedContext) -> ArtifactSources:
    return ArtifactSources.from_environment(
        builds=str(context.flags.get("builds") or ""),
        tokenizers=str(context.flags.get("tokenizers") or ""),
    )
