"""Every key of SuperSONIC's values files: its default, its meaning, and what it does here.

One table, from which defaults, checks, the chart's schema and the reference of keys are made.
"""

from kilonova.serving.supersonic.keys import envoy, monitoring, retired, root, triton
from kilonova.serving.supersonic.keys.model import (
    ABSENT,
    Effect,
    Path,
    ValueKey,
    ValueType,
    format_path,
)

SECTIONS: tuple[tuple[str, tuple[ValueKey, ...]], ...] = (
    ("The instance", root.KEYS),
    ("Servers: `triton`", triton.KEYS),
    ("Gateway: `envoy`", envoy.KEYS),
    ("Scaling: `keda`", root.KEDA_KEYS),
    ("Scaling from zero: `scaleFromZero`", root.SCALE_FROM_ZERO_KEYS),
    ("Monitoring: `prometheus`", monitoring.PROMETHEUS_KEYS),
    ("Dashboards: `grafana`", monitoring.GRAFANA_KEYS),
    ("Traces: `opentelemetry-collector` and `tempo`", monitoring.TRACING_KEYS),
    ("Metrics of servers: `metricsCollector`", monitoring.METRICS_COLLECTOR_KEYS),
    ("Keys of Kilonova", root.KEYS_OF_OURS),
    ("Keys of old charts", retired.KEYS),
)
"""The table, in the sections of the reference."""

SUBCHARTS: tuple[Path, ...] = (
    ("prometheus",),
    ("grafana",),
    ("tempo",),
    ("opentelemetry-collector",),
)
"""Below these, other keys than those of the table are those of the subcharts."""

KEYS: dict[Path, ValueKey] = {each.path: each for _, keys in SECTIONS for each in keys}

__all__ = [
    "ABSENT",
    "KEYS",
    "SECTIONS",
    "SUBCHARTS",
    "Effect",
    "Path",
    "ValueKey",
    "ValueType",
    "format_path",
]
