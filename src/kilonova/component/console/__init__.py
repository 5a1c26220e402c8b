"""What a component contributes to the console, from its own package.

- A **table** is a name, a resource and the function that computes the **row** of an object: plain
  values under an id (`tables`).
- A **page** shows a table: columns, filters, charts, and the **sections** of an object's details.
  It is data, so that a component outside of this repository has a page without a change of the
  frontend (`pages`). A page with a view of its own has a file in `frontend/src/pages` besides.
- An **action** changes an object of a table, after a confirmation (`actions`).
- A **search target** makes the rows of a table findable by name (`pages`).
- A **series** is a number over time, computed from the objects of a table or read by the
  component (`series`); charts show it.
- A **GPU metrics source** reads what an agent measures of each GPU, for the map (`gpu_metrics`).

All of it is one `ConsoleContribution`, which the component's registration names.
"""

from kilonova.component.console.actions import Action, ActionRejected, ActionRequest, ValueInput
from kilonova.component.console.contribution import ConsoleContribution, InvalidContribution
from kilonova.component.console.gpu_metrics import GpuMetricsSource
from kilonova.component.console.pages import (
    Chart,
    ChartLine,
    Charts,
    Column,
    Conditions,
    Entries,
    Events,
    Fields,
    Format,
    Histogram,
    LiveObject,
    Page,
    Related,
    SearchTarget,
    Section,
    TimeChart,
    Tone,
)
from kilonova.component.console.series import Measurement, MetricSeries, Series
from kilonova.component.console.tables import Row, Table

__all__ = [
    "Action",
    "ActionRejected",
    "ActionRequest",
    "Chart",
    "ChartLine",
    "Charts",
    "Column",
    "Conditions",
    "ConsoleContribution",
    "Entries",
    "Events",
    "Fields",
    "Format",
    "GpuMetricsSource",
    "Histogram",
    "InvalidContribution",
    "LiveObject",
    "Measurement",
    "MetricSeries",
    "Page",
    "Related",
    "Row",
    "SearchTarget",
    "Section",
    "Series",
    "Table",
    "TimeChart",
    "Tone",
    "ValueInput",
]
