"""What lives in the cluster of `kilonova up` beside its own controllers: the rooms of Kilonova."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from kilonova.api.json import JsonObject
from kilonova.api.schedulingnames import SCHEDULER
from kilonova.kube import Part
from kilonova.local.admission.inprocess import WebhooksOf
from kilonova.local.clock import Clock, Identities
from kilonova.local.cluster import Cluster, Settings

_OF_THE_SCHEDULER = ("scheduler.grove.io", "scheduling.kilonova.dev")
"""Groups of the kinds that a scheduler needs; an operator needs all."""


@dataclass(frozen=True, slots=True)
class Residents:
    """Which of them are wanted."""

    operator: bool = True
    scheduler: bool = True

    def cluster(
        self, settings: Settings, clock: Clock | None = None, identities: Identities | None = None
    ) -> Cluster:
        """A cluster with them. What nobody asked for is not even loaded."""
        webhooks: WebhooksOf | None = None
        builders: list[Callable[[Cluster], Sequence[Part]]] = []
        if self.operator:
            from kilonova.cli.embeddedoperator import EmbeddedOperator
            from kilonova.workloads.settings import Settings as OperatorSettings

            usual = OperatorSettings()
            ours = (SCHEDULER, *(each for each in usual.schedulers if each != SCHEDULER))
            settled = replace(usual, schedulers=ours) if self.scheduler else usual
            operator = EmbeddedOperator(settled)
            webhooks = operator.webhooks
            builders.append(operator.parts)
        if self.scheduler:
            from kilonova.cli.embeddedscheduler import scheduler_parts

            builders.append(scheduler_parts)
        return Cluster(
            settings,
            clock,
            identities,
            webhooks=webhooks,
            definitions=self._definitions(),
            parts=lambda cluster: [part for build in builders for part in build(cluster)],
        )

    def _definitions(self) -> Sequence[JsonObject]:
        """The kinds that they work on."""
        if not (self.operator or self.scheduler):
            return ()
        from kilonova.api.crds import definitions

        known = definitions()
        if self.operator:
            return known
        return [each for each in known if each["spec"]["group"] in _OF_THE_SCHEDULER]
