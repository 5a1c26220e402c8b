"""Keys of charts before 0.1, whose values files are still around."""

from kilonova.serving.supersonic.keys.model import ABSENT, Effect, ValueKey, ValueType


def _retired(path: str, instead: str) -> ValueKey:
    return ValueKey(
        tuple(path.split(".")),
        ValueType.ANYTHING,
        ABSENT,
        "A key of old charts.",
        Effect.REFUSED,
        instead,
    )


KEYS = (
    _retired("servers", "One instance per release: write `triton`, `envoy` and `keda` at the top."),
    _retired("common", "Write its content below `triton` and `envoy`."),
    _retired("autoscaler", "Write `keda`: minReplicas is `keda.minReplicaCount`, and so on."),
    _retired("ingress", "Write `envoy.ingress`."),
    _retired("nodeSelector", "Write `triton.nodeSelector` and `envoy.nodeSelector`."),
    _retired("tolerations", "Write `triton.tolerations` and `envoy.tolerations`."),
    _retired("triton.name", "Write `nameOverride`, or choose the name of the release."),
    _retired("triton.resetReadinessProbe", "Write `triton.readinessProbe.reset`."),
    _retired("envoy.name", "Write `nameOverride`, or choose the name of the release."),
    _retired("envoy.configs", "Write `envoy.external_config`."),
    _retired("prometheus.url", "Write `prometheus.external.url`, with `enabled: true`."),
    _retired("prometheus.port", "Write `prometheus.external.port`."),
    _retired("prometheus.scheme", "Write `prometheus.external.scheme`."),
    _retired("prometheus.serverLoadMetric", "Write `serverLoadMetric` at the top."),
    _retired("prometheus.serverLoadThreshold", "Write `serverLoadThreshold` at the top."),
    _retired("prometheus.serverAvailabilityMetric", "Write `serverLoadMetric` at the top."),
    _retired("prometheus.serverAvailabilityThreshold", "Write `serverLoadThreshold` at the top."),
    _retired("keda.scaleFromZero", "Write `scaleFromZero` at the top."),
)
