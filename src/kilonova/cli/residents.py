"""What lives in the cluster of `kilonova up` beside its own controllers: the rooms of Kilonova."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from kilonova.api.json import JsonObject
from kilonova.api.schedulingnames import SCHEDULER
from kilonova.kube import ComponentHealth, Part
from kilonova.local.admission.inprocess import WebhooksOf
from kilonova.local.clock import Clock, Identities
from kilonova.local.cluster import Cluster, Settings

Build = Callable[[Cluster], Sequence[Part]]
"""Makes what runs in a cluster."""
_OF_THE_SCHEDULER = ("scheduler.grove.io", "scheduling.kilonova.dev")
"""Groups of the kinds that a scheduler needs; an operator needs all."""


@dataclass(frozen=True, slots=True)
class Residents:
    """Which of them are wanted."""

    operator: bool = True
    scheduler: bool = True
    console: Build | None = None

    def cluster(
        self,
        settings: Settings,
        clock: Clock | None = None,
        identities: Identities | None = None,
        built: Callable[[str, Sequence[Part]], None] = lambda room, parts: None,
        report: Callable[[str, ComponentHealth], None] = lambda name, health: None,
    ) -> Cluster:
        """A cluster with them. What nobody asked for is not even loaded.

        `built` hears of which parts each of them consists, whenever one is started, and `report`
        how components do that fail.
        """
        webhooks: WebhooksOf | None = None
        builders: dict[str, Build] = {}
        if self.operator:
            from kilonova.cli.embeddedoperator import EmbeddedOperator
            from kilonova.workloads.settings import Settings as OperatorSettings

            usual = OperatorSettings()
            ours = (SCHEDULER, *(each for each in usual.schedulers if each != SCHEDULER))
            settled = replace(usual, schedulers=ours) if self.scheduler else usual
            operator = EmbeddedOperator(settled)
            webhooks = operator.webhooks
            builders["operator"] = operator.parts
        if self.scheduler:
            from kilonova.cli.embeddedscheduler import scheduler_parts

            builders["scheduler"] = scheduler_parts
        if self.console is not None:
            builders["console"] = self.console

        def announced(room: str, build: Build) -> Build:
            def parts(cluster: Cluster) -> Sequence[Part]:
                own = build(cluster)
                built(room, own)
                return own

            return parts

        return Cluster(
            settings,
            clock,
            identities,
            webhooks=webhooks,
            definitions=self._definitions(),
            components={room: announced(room, build) for room, build in builders.items()},
            report=report,
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
