"""Contains errors of event handlers: the node concerned is not used until it is counted again."""

from dataclasses import dataclass

from kilonova.scheduler.cache.informers import Informers
from kilonova.scheduler.cache.scheduler_cache import SchedulerCache
from kilonova.scheduler.error_reporter import ErrorReporter
from kilonova.scheduler.objects.core_v1 import Node, Pod


@dataclass(frozen=True, slots=True)
class HandlerErrorContainment:
    """Reports errors of event handlers, and excludes the node whose usage is unknown."""

    cache: SchedulerCache
    errors: ErrorReporter

    def attach(self, informers: Informers) -> None:
        """Contain the errors of all handlers from now on."""
        for informer in informers.all:
            informer.store.contain_handler_failures(self._on_error)

    def _on_error(self, old: object, new: object, error: Exception) -> None:
        subject, pod = new or old, None
        match subject:
            case Pod():
                name, node = subject.key, subject.spec.node_name
                pod = name
            case Node():
                name = node = subject.metadata.name
            case _:
                name, node = type(subject).__name__, ""
        self.errors.report("cache", name, error)
        try:
            self.cache.exclude_node(node, pod)
        except Exception as exclusion_error:
            self.errors.report("cache", node, exclusion_error)
