"""Keys of the subcharts: Prometheus, Grafana, Tempo, the OpenTelemetry collector, and the metrics
collector."""

from typing import Any

from kilonova.serving.supersonic.keys.model import ABSENT, Effect, Path, ValueKey, ValueType

NO_PROMETHEUS = "No Prometheus server is installed: autoscaler and limits do not need one."
NO_GRAFANA = "No Grafana is installed: the dashboards are a ConfigMap for yours."
NO_TEMPO = "No Tempo is installed: traces go to `kilonova.tracing.endpoint`."
NO_COLLECTOR = "No collector is installed: traces go to `kilonova.tracing.endpoint`."

_RESOURCES: Any = {
    "requests": {"cpu": "500m", "memory": "512Mi"},
    "limits": {"cpu": 1, "memory": "1Gi"},
}

_SMALL_RESOURCES: Any = {
    "requests": {"cpu": "100m", "memory": "128Mi"},
    "limits": {"cpu": 1, "memory": "1Gi"},
}
_NO_INGRESS: dict[str, Any] = {
    "enabled": False,
    "hostName": "",
    "hosts": [],
    "tls": [{"hosts": []}],
    "ingressClassName": "",
    "annotations": {},
}


def _unused(path: Path, type: ValueType, default: Any, meaning: str, here: str) -> ValueKey:
    return ValueKey(path, type, default, meaning, Effect.UNUSED, here)


PROMETHEUS_KEYS = (
    ValueKey(
        ("prometheus", "enabled"),
        ValueType.FLAG,
        False,
        "Whether the release has a Prometheus.",
        here="`monitoring.serviceMonitors`, where the Prometheus operator is installed. "
        + NO_PROMETHEUS,
    ),
    ValueKey(
        ("prometheus", "external", "enabled"),
        ValueType.FLAG,
        False,
        "Whether `serverLoadMetric` is asked elsewhere.",
        here="`autoscaling.metric.prometheus` and `limits.load.prometheus`.",
    ),
    ValueKey(
        ("prometheus", "external", "url"),
        ValueType.TEXT,
        "",
        "The host of that Prometheus, or its URL.",
        here="Of the URL.",
    ),
    ValueKey(
        ("prometheus", "external", "port"),
        ValueType.WHOLE,
        443,
        "Its port.",
        here="Of the URL.",
        minimum=1,
        maximum=65535,
    ),
    ValueKey(
        ("prometheus", "external", "scheme"),
        ValueType.TEXT,
        "https",
        "http or https.",
        here="Of the URL.",
        choices=("http", "https"),
    ),
    ValueKey(
        ("prometheus", "server", "global", "scrape_interval"),
        ValueType.DURATION,
        "5s",
        "How often metrics are read.",
        here="`monitoring.scrapeInterval`.",
    ),
    *(
        _unused(("prometheus", *path.split(".")), type_, default, meaning, NO_PROMETHEUS)
        for path, type_, default, meaning in (
            ("server.extraFlags", ValueType.TEXTS, ["web.enable-remote-write-receiver"], "Flags."),
            (
                "server.useExistingClusterRoleName",
                ValueType.TEXT,
                "supersonic-prometheus-role",
                "Its role.",
            ),
            ("server.releaseNamespace", ValueType.FLAG, True, "Whether it sees one namespace."),
            ("server.persistentVolume", ValueType.OBJECT, {"enabled": False}, "Its volume."),
            ("server.resources", ValueType.OBJECT, _RESOURCES, "Its resources."),
            ("server.retention", ValueType.TEXT, "15d", "How long it keeps data."),
            ("server.global.evaluation_interval", ValueType.DURATION, "5s", "Of its rules."),
            (
                "server.service",
                ValueType.OBJECT,
                {"enabled": True, "servicePort": 9090},
                "Its Service.",
            ),
            ("server.configMapOverrideName", ValueType.TEXT, "prometheus-config", "Its ConfigMap."),
            (
                "server.ingress",
                ValueType.OBJECT,
                _NO_INGRESS,
                "Its Ingress.",
            ),
            (
                "serviceAccounts",
                ValueType.OBJECT,
                {"server": {"create": False, "name": "supersonic-prometheus-sa"}},
                "Its accounts.",
            ),
            ("rbac", ValueType.OBJECT, {"create": False}, "Its roles."),
            ("resources", ValueType.OBJECT, ABSENT, "Not of Prometheus' chart, either."),
            ("alertmanager", ValueType.OBJECT, {"enabled": False}, "A subchart."),
            ("pushgateway", ValueType.OBJECT, {"enabled": False}, "A subchart."),
            ("kube-state-metrics", ValueType.OBJECT, {"enabled": False}, "A subchart."),
            ("prometheus-node-exporter", ValueType.OBJECT, {"enabled": False}, "A subchart."),
            ("prometheus-pushgateway", ValueType.OBJECT, {"enabled": False}, "A subchart."),
            (
                "configmapReload",
                ValueType.OBJECT,
                {"prometheus": {"enabled": False}},
                "A sidecar.",
            ),
        )
    ),
)

GRAFANA_KEYS = (
    ValueKey(
        ("grafana", "enabled"),
        ValueType.FLAG,
        False,
        "Whether the release has a Grafana.",
        here="`monitoring.dashboards`: a ConfigMap with the label `grafana_dashboard`. "
        + NO_GRAFANA,
    ),
    *(
        _unused(("grafana", name), type_, default, meaning, NO_GRAFANA)
        for name, type_, default, meaning in (
            ("adminUser", ValueType.TEXT, "admin", "Its administrator."),
            ("adminPassword", ValueType.TEXT, "admin", "The password of its administrator."),
            ("persistence", ValueType.OBJECT, {"enabled": False}, "Its volume."),
            ("rbac", ValueType.OBJECT, {"create": False}, "Its roles."),
            ("serviceAccount", ValueType.OBJECT, {"create": False}, "Its account."),
            ("datasources", ValueType.OBJECT, ABSENT, "Its data sources."),
            ("dashboardProviders", ValueType.OBJECT, ABSENT, "Its providers of dashboards."),
            (
                "dashboardsConfigMaps",
                ValueType.OBJECT,
                {"default": "supersonic-grafana-default-dashboard"},
                "ConfigMaps with dashboards.",
            ),
            ("grafana.ini", ValueType.OBJECT, ABSENT, "Its configuration."),
            ("resources", ValueType.OBJECT, _SMALL_RESOURCES, "Its resources."),
            ("service", ValueType.OBJECT, ABSENT, "Its Service."),
            ("ingress", ValueType.OBJECT, _NO_INGRESS, "Its Ingress."),
        )
    ),
)

TRACING_KEYS = (
    ValueKey(
        ("opentelemetry-collector", "enabled"),
        ValueType.FLAG,
        False,
        "Whether the release has a collector, and requests are traced.",
        here="`gateway.tracing`; needs `kilonova.tracing.endpoint`. " + NO_COLLECTOR,
    ),
    *(
        _unused(("opentelemetry-collector", name), type_, default, meaning, NO_COLLECTOR)
        for name, type_, default, meaning in (
            ("image", ValueType.OBJECT, ABSENT, "Its image."),
            ("mode", ValueType.TEXT, "deployment", "How it runs."),
            ("resources", ValueType.OBJECT, ABSENT, "Its resources."),
            ("ports", ValueType.OBJECT, ABSENT, "Its ports."),
            ("config", ValueType.OBJECT, ABSENT, "Its configuration."),
        )
    ),
    ValueKey(
        ("tempo", "enabled"),
        ValueType.FLAG,
        False,
        "Whether the release has a Tempo.",
        here="`gateway.tracing`; needs `kilonova.tracing.endpoint`, such as that of your Tempo. "
        + NO_TEMPO,
    ),
    *(
        _unused(("tempo", name), ValueType.OBJECT, ABSENT, meaning, NO_TEMPO)
        for name, meaning in (
            ("tempo", "Its configuration."),
            ("resources", "Its resources."),
            ("persistence", "Its volume."),
        )
    ),
)

_NO_PROGRAM = "Servers answer themselves: no program runs."

METRICS_COLLECTOR_KEYS = (
    ValueKey(
        ("metricsCollector", "enabled"),
        ValueType.FLAG,
        False,
        "Whether the metrics of servers are served for `perf_analyzer --collect-metrics`.",
        here="The Service `NAME-metrics-collector`, of which each connection reaches one server.",
    ),
    _unused(
        ("metricsCollector", "image"), ValueType.TEXT, "python:3.11-slim", "Its image.", _NO_PROGRAM
    ),
    _unused(("metricsCollector", "host"), ValueType.TEXT, ABSENT, "Its address.", _NO_PROGRAM),
    ValueKey(
        ("metricsCollector", "port"),
        ValueType.WHOLE,
        8003,
        "Its port.",
        here="Of the Service.",
        minimum=1,
        maximum=65535,
    ),
    _unused(
        ("metricsCollector", "resources"),
        ValueType.OBJECT,
        _RESOURCES,
        "Its resources.",
        _NO_PROGRAM,
    ),
    ValueKey(
        ("metricsCollector", "service", "port"),
        ValueType.WHOLE,
        ABSENT,
        "The port of its Service.",
        here="Of the Service, instead of `metricsCollector.port`.",
        minimum=1,
        maximum=65535,
    ),
    ValueKey(
        ("metricsCollector", "service", "type"),
        ValueType.TEXT,
        "ClusterIP",
        "The type of its Service.",
        here="Of the Service.",
        choices=("ClusterIP", "NodePort", "LoadBalancer"),
    ),
    ValueKey(
        ("metricsCollector", "ingress", "enabled"),
        ValueType.FLAG,
        False,
        "Whether it has an Ingress.",
        here="The Ingress `NAME-metrics-collector`.",
    ),
    ValueKey(
        ("metricsCollector", "ingress", "hostName"),
        ValueType.TEXT,
        "",
        "The host of the Ingress.",
        here="Of the Ingress.",
    ),
    ValueKey(
        ("metricsCollector", "ingress", "ingressClassName"),
        ValueType.TEXT,
        "",
        "The class of the Ingress.",
        here="Of the Ingress.",
    ),
    ValueKey(
        ("metricsCollector", "ingress", "annotations"),
        ValueType.MAP,
        {},
        "Annotations of the Ingress.",
        here="Of the Ingress.",
    ),
)

KEYS = (*PROMETHEUS_KEYS, *GRAFANA_KEYS, *TRACING_KEYS, *METRICS_COLLECTOR_KEYS)
