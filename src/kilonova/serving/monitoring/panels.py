"""Panels of Grafana. Pure; what is not said is Grafana's default."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kilonova.api.json import JsonObject

COLUMNS = 24
_DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
_TRACES = {"type": "tempo", "uid": "${traces}"}


@dataclass(frozen=True, slots=True)
class Query:
    """An expression, and the name of its series."""

    expression: str
    legend: str = ""


@dataclass(frozen=True, slots=True)
class Panel:
    """A panel: of series, unless `stat`."""

    title: str
    queries: tuple[Query, ...]
    unit: str = ""
    width: int = 12
    height: int = 8
    stat: bool = False
    stacked: bool = False
    description: str = ""
    threshold: float | None = None
    """Where a line is drawn."""

    def render(self, number: int, x: int, y: int) -> JsonObject:
        """The panel at a place of the grid."""
        built: JsonObject = {
            "id": number,
            "title": self.title,
            "type": "stat" if self.stat else "timeseries",
            "datasource": _DATASOURCE,
            "gridPos": {"x": x, "y": y, "w": self.width, "h": self.height},
            "fieldConfig": {"defaults": self._render_defaults(), "overrides": []},
            "targets": [
                {
                    "datasource": _DATASOURCE,
                    "expr": query.expression,
                    "refId": chr(ord("A") + place),
                    **({"legendFormat": query.legend} if query.legend else {}),
                    **({"instant": True} if self.stat else {}),
                }
                for place, query in enumerate(self.queries)
            ],
            "options": {},
        }
        if self.description:
            built["description"] = self.description
        return built

    def _render_defaults(self) -> JsonObject:
        defaults: JsonObject = {"min": 0}
        if self.unit:
            defaults["unit"] = self.unit
        custom: JsonObject = {}
        if self.stacked:
            custom = {"fillOpacity": 60, "stacking": {"mode": "normal", "group": "A"}}
        if self.threshold is not None:
            custom["thresholdsStyle"] = {"mode": "dashed"}
            steps: list[JsonObject] = [{"color": "green", "value": None}]
            steps.append({"color": "red", "value": self.threshold})
            defaults["thresholds"] = {"mode": "absolute", "steps": steps}
        if custom and not self.stat:
            defaults["custom"] = custom
        return defaults


@dataclass(frozen=True, slots=True)
class ServiceMap:
    """A panel with the graph of services that a Tempo computes from traces."""

    title: str
    width: int = COLUMNS
    height: int = 12
    description: str = ""

    def render(self, number: int, x: int, y: int) -> JsonObject:
        """The panel at a place of the grid."""
        return {
            "id": number,
            "title": self.title,
            "type": "nodeGraph",
            "description": self.description,
            "datasource": _TRACES,
            "gridPos": {"x": x, "y": y, "w": self.width, "h": self.height},
            "fieldConfig": {"defaults": {}, "overrides": []},
            "targets": [{"datasource": _TRACES, "queryType": "serviceMap", "refId": "A"}],
            "options": {},
        }


@dataclass(frozen=True, slots=True)
class Board:
    """A dashboard: panels from left to right, and rows from top to bottom."""

    uid: str
    title: str
    tags: tuple[str, ...]
    panels: tuple[Panel | ServiceMap, ...]
    variables: dict[str, str] = field(default_factory=dict[str, str])
    """Names, and the expressions of their values."""
    window: str = "1h"
    """What it shows until another time is chosen."""

    def render(self, chosen: Mapping[str, str] | None = None) -> JsonObject:
        """The dashboard, as Grafana imports it, with the values of variables to begin with."""
        sources = [_render_source("datasource", "prometheus", "Data source")]
        if any(isinstance(each, ServiceMap) for each in self.panels):
            sources.append(_render_source("traces", "tempo", "Traces"))
        variables = _render_variables(self.variables, chosen or {})
        return {
            "uid": self.uid,
            "title": self.title,
            "tags": list(self.tags),
            "schemaVersion": 39,
            "version": 1,
            "editable": True,
            "refresh": "5s",
            "time": {"from": f"now-{self.window}", "to": "now"},
            "templating": {"list": [*sources, *variables]},
            "panels": _arrange(self.panels),
        }


def _arrange(panels: tuple[Panel | ServiceMap, ...]) -> list[JsonObject]:
    """The panels, row by row: a row is as high as its highest panel."""
    arranged: list[JsonObject] = []
    x = y = height = 0
    for number, panel in enumerate(panels, 1):
        if x + panel.width > COLUMNS:
            x, y, height = 0, y + height, 0
        arranged.append(panel.render(number, x, y))
        x += panel.width
        height = max(height, panel.height)
    return arranged


def _render_source(name: str, kind: str, label: str) -> JsonObject:
    """The variable of a data source."""
    return {
        "name": name,
        "type": "datasource",
        "query": kind,
        "label": label,
        "hide": 0,
        "refresh": 1,
    }


def _render_variables(variables: dict[str, str], chosen: Mapping[str, str]) -> list[JsonObject]:
    found: list[JsonObject] = []
    for name, query in variables.items():
        current: JsonObject = {"text": "All", "value": "$__all"}
        if name in chosen:
            current = {"text": [chosen[name]], "value": [chosen[name]]}
        found.append(
            {
                "name": name,
                "type": "query",
                "label": name.capitalize(),
                "datasource": _DATASOURCE,
                "query": {"query": query, "refId": "V"},
                "includeAll": True,
                "multi": True,
                "allValue": ".*",
                "refresh": 2,
                "current": current,
            }
        )
    return found
