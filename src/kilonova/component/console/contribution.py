"""Everything that one component contributes to the console."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kilonova.component.console.actions import Action
from kilonova.component.console.gpu_metrics import GpuMetricsSource
from kilonova.component.console.pages import Page, SearchTarget, Section
from kilonova.component.console.series import MetricSeries, Series
from kilonova.component.console.tables import Table


class InvalidContribution(ValueError):
    """A contribution that the console cannot use: the component, what is wrong, and the fix."""

    def __init__(self, component: str, problem: str) -> None:
        super().__init__(f"console contribution of {component}: {problem}")
        self.component = component
        self.problem = problem


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleContribution:
    """What one component adds to the console.

    References by name (of a table, a field, a series) may name those of other components, and are
    checked when the console is built.
    """

    component: str
    tables: tuple[Table[Any], ...] = ()
    pages: tuple[Page, ...] = ()
    sections: Mapping[str, tuple[Section, ...]] = field(default_factory=dict[str, Any])
    """Sections in the details of objects of other components, by table."""
    actions: tuple[Action, ...] = ()
    search: tuple[SearchTarget, ...] = ()
    series: tuple[Series[Any], ...] = ()
    metric_series: tuple[MetricSeries, ...] = ()
    gpu_metrics: GpuMetricsSource | None = None
