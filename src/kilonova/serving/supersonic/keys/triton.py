"""Keys of the servers. Newer charts have them below `inferenceServer`."""

from typing import Any

from kilonova.serving.supersonic.keys.model import ABSENT, Effect, ValueKey, ValueType

STORAGE_TYPES = ("pvc", "cvmfs-pvc", "cvmfs-hostPath", "cvmfs", "nfs", "s3")

_ARGUMENTS = (
    "/opt/tritonserver/bin/tritonserver \\\n--model-repository=/tmp/ \\\n--log-verbose=0 \\\n"
    "--exit-timeout-secs=60\n"
)
_TRITON_RESOURCES = {"limits": {"cpu": 1, "memory": "2G"}, "requests": {"cpu": 1, "memory": "2G"}}


def _key(
    path: str,
    type: ValueType,
    default: Any,
    meaning: str,
    here: str,
    effect: Effect = Effect.HONOURED,
    **more: Any,
) -> ValueKey:
    return ValueKey(("triton", *path.split(".")), type, default, meaning, effect, here, **more)


KEYS = (
    _key(
        "type",
        ValueType.TEXT,
        "triton",
        "The kind of server.",
        "Only `triton`: for another server of the v2 protocol write an InferenceService.",
        choices=("triton",),
    ),
    _key(
        "replicas",
        ValueType.WHOLE,
        1,
        "The number of servers.",
        "`replicas`; 0 is 0. Left out with `keda.enabled`, so that an upgrade does not reset it.",
        minimum=0,
    ),
    _key(
        "image",
        ValueType.TEXT,
        "nvcr.io/nvidia/tritonserver:26.04-py3-min",
        "The image of the server.",
        "`image`.",
    ),
    _key("command", ValueType.TEXTS, ["/bin/sh", "-c"], "Its command.", "`command`."),
    _key("args", ValueType.TEXTS, [_ARGUMENTS], "Its arguments.", "`args`."),
    _key(
        "resources",
        ValueType.OBJECT,
        _TRITON_RESOURCES,
        "Its resources, such as `nvidia.com/gpu`.",
        "`resources`.",
    ),
    _key(
        "annotations",
        ValueType.MAP,
        {},
        "Annotations of its pods.",
        "`template.metadata.annotations`.",
    ),
    _key(
        "nodeSelector",
        ValueType.MAP,
        {},
        "Labels that its nodes have.",
        "`template.spec.nodeSelector`.",
    ),
    _key(
        "tolerations",
        ValueType.OBJECTS,
        [],
        "Taints of nodes that it tolerates.",
        "`template.spec.tolerations`.",
    ),
    _key("affinity", ValueType.OBJECT, {}, "Its affinity.", "`template.spec.affinity`."),
    _key(
        "modelRepository.enabled",
        ValueType.FLAG,
        False,
        "Whether a model repository is mounted.",
        "`modelRepository`.",
    ),
    _key(
        "modelRepository.mountPath",
        ValueType.TEXT,
        "",
        "Where the server sees it.",
        "`modelRepository.mountPath`.",
    ),
    _key(
        "modelRepository.storageType",
        ValueType.TEXT,
        ABSENT,
        "What is mounted: a claim, CVMFS by a claim or from the node, or NFS.",
        "`persistentVolumeClaim`, `cvmfs` or `nfs`. `cvmfs` is `cvmfs-hostPath`, as documented; "
        "`s3` downloads the files.",
        choices=STORAGE_TYPES,
    ),
    _key(
        "modelRepository.pvc.claimName",
        ValueType.TEXT,
        ABSENT,
        "The claim, for `pvc`.",
        "`persistentVolumeClaim.claimName`.",
    ),
    _key(
        "modelRepository.nfs.server",
        ValueType.TEXT,
        ABSENT,
        "The server, for `nfs`.",
        "`nfs.server`.",
    ),
    _key(
        "modelRepository.nfs.path",
        ValueType.TEXT,
        ABSENT,
        "The exported folder, for `nfs`.",
        "`nfs.path`.",
    ),
    _key(
        "modelRepository.s3.url",
        ValueType.TEXT,
        ABSENT,
        "`s3://BUCKET/PREFIX`, for `s3`.",
        "`objectStore.url`.",
        of_ours=True,
    ),
    _key(
        "modelRepository.s3.endpoint",
        ValueType.TEXT,
        ABSENT,
        "An S3 server other than that of AWS.",
        "`objectStore.endpoint`.",
        of_ours=True,
    ),
    _key(
        "modelRepository.s3.secretName",
        ValueType.TEXT,
        ABSENT,
        "A Secret with AWS_ACCESS_KEY_ID and so on.",
        "`objectStore.credentials.name`.",
        of_ours=True,
    ),
    _key(
        "service.labels",
        ValueType.MAP,
        {},
        "Labels of the headless Service of the servers.",
        "Of the Service `NAME-triton`.",
    ),
    _key(
        "service.annotations",
        ValueType.MAP,
        {},
        "Its annotations.",
        "Of the Service `NAME-triton`.",
    ),
    _key(
        "service.ports",
        ValueType.OBJECTS,
        [
            {"name": "http", "port": 8000, "targetPort": 8000, "protocol": "TCP"},
            {"name": "grpc", "port": 8001, "targetPort": 8001, "protocol": "TCP"},
            {"name": "metrics", "port": 8002, "targetPort": 8002, "protocol": "TCP"},
        ],
        "Ports of the server: `http`, `grpc` and `metrics`.",
        "`ports`, and the Service `NAME-triton`.",
    ),
    _key(
        "readinessProbe.reset",
        ValueType.FLAG,
        False,
        "Whether the settings of the readiness probe are ignored.",
        "That of the runtime Triton. There is always one.",
    ),
    *(
        _key(
            f"readinessProbe.{name}",
            ValueType.WHOLE,
            default,
            "As in Kubernetes.",
            "The readiness probe, if any of its keys is written; else that of the runtime Triton.",
            minimum=minimum,
        )
        for name, default, minimum in (
            ("initialDelaySeconds", 10, 0),
            ("periodSeconds", 10, 1),
            ("failureThreshold", 10, 1),
            ("timeoutSeconds", 5, 1),
            ("successThreshold", 1, 1),
        )
    ),
    _key(
        "readinessProbe.command",
        ValueType.TEXTS,
        [
            "/bin/sh",
            "-c",
            "curl -sf http://localhost:8000/v2/health/ready > /dev/null && [ ! -f /tmp/shutdown ]",
        ],
        "The command of the probe.",
        "The command, if it is written. Else `GET /v2/health/ready`, which needs no curl in the "
        "image; servers drain without a marker file.",
    ),
    *(
        _key(
            f"readinessProbe.{name}",
            ValueType.OBJECT,
            ABSENT,
            "As in Kubernetes, instead of `command`.",
            "The readiness probe, if any of its keys is written; else that of the runtime Triton.",
        )
        for name in ("exec", "httpGet", "tcpSocket")
    ),
    _key(
        "startupProbe.reset",
        ValueType.FLAG,
        False,
        "Whether the settings of the startup probe are ignored.",
        "That of the runtime Triton.",
    ),
    *(
        _key(
            f"startupProbe.{name}",
            ValueType.WHOLE,
            default,
            "As in Kubernetes.",
            "The startup probe, if any of its keys is written; else that of the runtime Triton.",
            minimum=minimum,
        )
        for name, default, minimum in (
            ("initialDelaySeconds", 0, 0),
            ("periodSeconds", 10, 1),
            ("failureThreshold", 12, 1),
            ("timeoutSeconds", ABSENT, 1),
        )
    ),
    _key(
        "startupProbe.httpGet",
        ValueType.OBJECT,
        {"path": "/v2/health/ready", "port": "http"},
        "The request of the probe.",
        "The startup probe, if any of its keys is written; else that of the runtime Triton.",
    ),
    *(
        _key(
            f"startupProbe.{name}",
            type_,
            ABSENT,
            "As in Kubernetes, instead of `httpGet`.",
            "The startup probe, if any of its keys is written; else that of the runtime Triton.",
        )
        for name, type_ in (
            ("command", ValueType.TEXTS),
            ("exec", ValueType.OBJECT),
            ("tcpSocket", ValueType.OBJECT),
        )
    ),
    _key(
        "nereid",
        ValueType.OBJECT,
        ABSENT,
        "Configuration of another server.",
        "Only Triton: for another server of the v2 protocol write an InferenceService.",
        Effect.REFUSED,
    ),
)
