"""Keys at the top, those of KEDA and of scaling from zero, and ours."""

from kilonova.serving.supersonic.keys.model import ABSENT, Effect, ValueKey, ValueType

MODES = ("namespaced", "cluster")
LOAD_METRICS = ("queueTime", "inFlightRatio")
SCALERS = ("Builtin", "HorizontalPodAutoscaler", "ScaledObject")

KEYS = (
    ValueKey(
        ("nameOverride",),
        ValueType.TEXT,
        "",
        "The name of the instance, instead of that of the release.",
        here="The name of the InferenceService and of its Service.",
    ),
    ValueKey(
        ("serverLoadMetric",),
        ValueType.TEXT,
        "",
        "PromQL of the load.",
        here="`autoscaling.metric.query` with `keda.enabled`, `limits.load.query` with "
        "`envoy.rate_limiter.prometheus_based.enabled`. Empty: the time in the queue of servers, "
        "which is read from the servers themselves: no Prometheus is needed.",
    ),
    ValueKey(
        ("serverLoadThreshold",),
        ValueType.NUMBER,
        100,
        "The load at which servers are added and jobs are rejected.",
        here="`autoscaling.metric.threshold` and `limits.load.threshold`; without "
        "`serverLoadMetric` milliseconds in the queue (`autoscaling.sla.queue`, "
        "`limits.load.queueTime`), or a ratio, see `kilonova.loadMetric`.",
        minimum=0,
    ),
    ValueKey(
        ("serverLoadRateInterval",),
        ValueType.TEXT,
        ABSENT,
        "The window of `rate()` in the default metric.",
        Effect.UNUSED,
        "The default load is no query.",
    ),
    ValueKey(
        ("serverAdmissionThreshold",),
        ValueType.NUMBER,
        ABSENT,
        "The load at which jobs are rejected, if it is not serverLoadThreshold.",
        here="`limits.load.threshold`, or `limits.load.inFlightPerReplica`.",
        minimum=0,
    ),
    ValueKey(
        ("global",),
        ValueType.OBJECT,
        {},
        "Values that Helm passes to subcharts.",
        Effect.UNUSED,
        "There are no subcharts.",
    ),
)

SCALE_FROM_ZERO_KEYS = (
    ValueKey(
        ("scaleFromZero", "enabled"),
        ValueType.FLAG,
        False,
        "Whether a request for the repository index starts the first server.",
        here="Any request does, and is held until a server is ready: with "
        "`keda.minReplicaCount: 0` always. If it is set, there is no server to begin with.",
    ),
    ValueKey(
        ("scaleFromZero", "readyTimeoutSeconds"),
        ValueType.WHOLE,
        300,
        "How long such a request waits.",
        here="`autoscaling.scaleToZero.holdTimeout`, with `scaleFromZero.enabled`.",
        minimum=1,
    ),
    ValueKey(
        ("scaleFromZero", "holdMinReplicasSeconds"),
        ValueType.WHOLE,
        300,
        "How long the first server stays at least.",
        here="`autoscaling.scaleToZero.idleAfter`, if it is longer than `keda.cooldownPeriod`.",
        minimum=0,
    ),
    ValueKey(
        ("scaleFromZero", "admissionImage"),
        ValueType.TEXT,
        "python:3.14-slim",
        "The image of a sidecar of Envoy.",
        Effect.UNUSED,
        "There is no sidecar.",
    ),
)

KEDA_KEYS = (
    ValueKey(
        ("keda", "enabled"),
        ValueType.FLAG,
        False,
        "Whether the number of servers follows the load.",
        here="`autoscaling`; neither KEDA nor Prometheus is needed, see `kilonova.scaler`.",
    ),
    ValueKey(
        ("keda", "minReplicaCount"),
        ValueType.WHOLE,
        1,
        "The least number of servers.",
        here="`autoscaling.minReplicas`; 0 is 0.",
        minimum=0,
    ),
    ValueKey(
        ("keda", "maxReplicaCount"),
        ValueType.WHOLE,
        2,
        "The greatest number of servers.",
        here="`autoscaling.maxReplicas`.",
        minimum=1,
    ),
    ValueKey(
        ("keda", "zeroIdleReplicas"),
        ValueType.FLAG,
        False,
        "Whether an idle instance has no server.",
        here="`autoscaling.minReplicas: 0`; the next request starts the first server.",
    ),
    ValueKey(
        ("keda", "scaleUp", "stabilizationWindowSeconds"),
        ValueType.WHOLE,
        60,
        "How long a higher number must be recommended.",
        here="`autoscaling.scaleUp.stabilization`.",
        minimum=0,
    ),
    ValueKey(
        ("keda", "scaleUp", "periodSeconds"),
        ValueType.WHOLE,
        60,
        "The period of the step.",
        here="`autoscaling.scaleUp.period`.",
        minimum=1,
    ),
    ValueKey(
        ("keda", "scaleUp", "stepsize"),
        ValueType.WHOLE,
        1,
        "The servers that are added at most in a period.",
        here="`autoscaling.scaleUp.maxReplicas`.",
        minimum=1,
    ),
    ValueKey(
        ("keda", "scaleDown", "stabilizationWindowSeconds"),
        ValueType.WHOLE,
        600,
        "How long a lower number must be recommended.",
        here="`autoscaling.scaleDown.stabilization`.",
        minimum=0,
    ),
    ValueKey(
        ("keda", "scaleDown", "periodSeconds"),
        ValueType.WHOLE,
        120,
        "The period of the step.",
        here="`autoscaling.scaleDown.period`.",
        minimum=1,
    ),
    ValueKey(
        ("keda", "scaleDown", "stepsize"),
        ValueType.WHOLE,
        1,
        "The servers that are removed at most in a period.",
        here="`autoscaling.scaleDown.maxReplicas`.",
        minimum=1,
    ),
    ValueKey(
        ("keda", "metricType"),
        ValueType.TEXT,
        "",
        "Whether the metric is of one server (Value) or of all (AverageValue).",
        here="`autoscaling.metric.perReplica`, which is true for AverageValue.",
        choices=("", "Value", "AverageValue"),
    ),
    ValueKey(
        ("keda", "pollingInterval"),
        ValueType.WHOLE,
        30,
        "Seconds between two readings of the metric.",
        Effect.UNUSED,
        "The load is read every second.",
        minimum=0,
    ),
    ValueKey(
        ("keda", "cooldownPeriod"),
        ValueType.WHOLE,
        120,
        "How long there must be no load before the last server is removed.",
        here="`autoscaling.scaleToZero.idleAfter`.",
        minimum=0,
    ),
    ValueKey(
        ("keda", "activationThreshold"),
        ValueType.NUMBER,
        0,
        "The load above which the first server starts.",
        Effect.UNUSED,
        "A request starts it.",
        minimum=0,
    ),
)

KEYS_OF_OURS = (
    ValueKey(
        ("mode",),
        ValueType.TEXT,
        "namespaced",
        "What runs the service: a Deployment of the release, with permissions in its namespace "
        "alone, or the installation of Kilonova on the cluster.",
        here="Of the chart alone.",
        choices=MODES,
        of_ours=True,
    ),
    ValueKey(
        ("kilonova", "image"),
        ValueType.TEXT,
        "docker.io/kilonova/kilonova:latest",
        "The image of the Deployment in the mode `namespaced`, and of downloads of models.",
        here="Of the chart alone.",
        of_ours=True,
    ),
    ValueKey(
        ("kilonova", "resources"),
        ValueType.OBJECT,
        {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"memory": "512Mi"}},
        "The resources of that Deployment.",
        here="Of the chart alone.",
        of_ours=True,
    ),
    ValueKey(
        ("kilonova", "nodeSelector"),
        ValueType.MAP,
        {},
        "Labels that the node of that Deployment has.",
        here="Of the chart alone.",
        of_ours=True,
    ),
    ValueKey(
        ("kilonova", "tolerations"),
        ValueType.OBJECTS,
        [],
        "Taints of nodes that it tolerates.",
        here="Of the chart alone.",
        of_ours=True,
    ),
    ValueKey(
        ("kilonova", "loadMetric"),
        ValueType.TEXT,
        "",
        "What `serverLoadThreshold` is compared with when `serverLoadMetric` is empty: "
        "milliseconds in the queue, or requests in flight over requests that servers work on.",
        here="Empty: inFlightRatio if a key of SuperSONIC 0.4 is used or the threshold is at most "
        "10, else queueTime.",
        choices=("", *LOAD_METRICS),
        of_ours=True,
    ),
    ValueKey(
        ("kilonova", "executionsPerServer"),
        ValueType.WHOLE,
        1,
        "With inFlightRatio: the requests that a server works on at the same time, such as its "
        "model instances.",
        here="`autoscaling.demand.inFlightPerReplica` is this times the threshold.",
        minimum=1,
        of_ours=True,
    ),
    ValueKey(
        ("kilonova", "scaler"),
        ValueType.TEXT,
        "Builtin",
        "What scales the servers.",
        here="`autoscaling.scaler`.",
        choices=SCALERS,
        of_ours=True,
    ),
    ValueKey(
        ("kilonova", "tracing", "endpoint"),
        ValueType.TEXT,
        "",
        "The collector's OTLP endpoint (gRPC): `HOST:PORT`.",
        here="`gateway.tracing.endpoint`.",
        of_ours=True,
    ),
)
