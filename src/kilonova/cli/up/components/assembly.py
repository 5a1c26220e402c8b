"""Assembles the cluster of `kilonova up` from the registrations of the selected components."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from kilonova.component import Component, FlagValue, find_components
from kilonova.component.definitions import load_available_definitions
from kilonova.component.embedded import EmbeddedComponent, EmbeddedContext
from kilonova.component.failure import CommandFailed
from kilonova.component.health import ComponentProblems
from kilonova.component.references import load_reference
from kilonova.kube import Client, ComponentHealth, Runnable
from kilonova.kube.admission.in_process import InProcessWebhook
from kilonova.kube.observability.structured_logging import get_logger
from kilonova.local.clock import Clock, IdGenerator
from kilonova.local.cluster import ClusterSettings, EmbeddedCluster

_log = get_logger(__name__)


def _ignore_runnables(name: str, runnables: Sequence[Runnable]) -> None:
    pass


def _ignore_health(name: str, health: ComponentHealth) -> None:
    pass


@dataclass(frozen=True, slots=True)
class ComponentListeners:
    """Called when a component is built or changes its health."""

    on_built: Callable[[str, Sequence[Runnable]], None] = _ignore_runnables
    """Receives the runnables of a component whenever it is started or restarted."""
    on_health: Callable[[str, ComponentHealth], None] = _ignore_health
    """Receives its health when it fails or recovers."""


@dataclass(frozen=True, slots=True)
class ClusterAssembly:
    """A cluster and the components that run in it."""

    cluster: EmbeddedCluster
    _components: Mapping[str, EmbeddedComponent] = field(repr=False)

    def claim_ports(self) -> None:
        """Bind the ports of the API and of components, before anything is created."""
        self.cluster.claim_port()
        for each in self._components.values():
            each.claim_ports()

    def find_link(self, name: str) -> str | None:
        """The page of a component, if it runs and has one."""
        found = self._components.get(name)
        return found.link() if found is not None else None


def assemble_cluster(
    names: Collection[str],
    settings: ClusterSettings,
    clock: Clock | None = None,
    id_generator: IdGenerator | None = None,
    *,
    flags: Mapping[str, FlagValue] | None = None,
    listeners: ComponentListeners | None = None,
) -> ClusterAssembly:
    """A cluster with the components of these names; only their code is imported.

    Parts of the cluster itself, such as its nodes, come from `settings`.
    """
    listeners = listeners or ComponentListeners()
    selected = [each for each in find_components() if each.name in names]
    built: dict[str, EmbeddedComponent] = {}
    problems = ComponentProblems()

    def build_webhooks(client: Callable[[str], Client]) -> Sequence[InProcessWebhook]:
        return [hook for each in built.values() for hook in each.build_webhooks()]

    def builder_of(name: str) -> Callable[[EmbeddedCluster], Sequence[Runnable]]:
        def build_runnables(cluster: EmbeddedCluster) -> Sequence[Runnable]:
            runnables = built[name].build_runnables()
            listeners.on_built(name, runnables)
            return runnables

        return build_runnables

    def report_health(name: str, health: ComponentHealth) -> None:
        problems.report(name, health)
        listeners.on_health(name, health)

    parts = [each for each in selected if each.embedded is not None and each.embedded.build]
    cluster = EmbeddedCluster(
        settings,
        clock,
        id_generator,
        webhooks=build_webhooks,
        definitions=load_available_definitions(selected),
        components={each.name: builder_of(each.name) for each in parts},
        report=report_health,
    )
    for each in parts:
        context = EmbeddedContext(each.name, cluster, flags or {}, frozenset(names), problems)
        built[each.name] = _load_component(each, context)
    return ClusterAssembly(cluster, built)


def _load_component(component: Component, context: EmbeddedContext) -> EmbeddedComponent:
    """The component; one that cannot be loaded or built fails when it is started, as any other that
    fails, and is tried again."""
    assert component.embedded is not None
    reference = component.embedded.build

    def load() -> EmbeddedComponent:
        return load_reference(reference)(context)

    try:
        return load()
    except CommandFailed:
        raise
    except Exception:
        _log.exception("component not loaded", component=component.name)
        return EmbeddedComponent(build_runnables=lambda: load().build_runnables())
