"""LimitRanges: the defaults they set, and the objects they reject."""

from typing import Any

import pytest

from kilonova.kube import Client, Forbidden
from kilonova.kube.client.resource import unstructured_resource
from kilonova.local.apiserver.admission.plugins.limit_ranger import (
    claim_violations,
    pod_violations,
    set_default_resources,
)
from tests.local.embedded_cluster import PODS, run_cluster

RANGES = unstructured_resource("", "v1", "limitranges", "LimitRange", True)


def pod(*containers: Any, init: tuple[Any, ...] = (), **spec: Any) -> Any:
    return {
        "metadata": {"name": "p"},
        "spec": {"containers": list(containers), "initContainers": list(init), **spec},
    }


def container(name: str = "main", *, requests: Any = None, limits: Any = None, **more: Any) -> Any:
    resources = {"requests": requests, "limits": limits}
    retained = {field: value for field, value in resources.items() if value}
    return {"name": name, "image": "i", "resources": retained, **more}


def bounds(kind: str = "Container", **fields: Any) -> Any:
    return {"type": kind, **fields}


def test_defaults_are_set_and_annotated() -> None:
    filled = pod(
        container("web", requests={"cpu": "1"}),
        container("log", limits={"cpu": "2", "memory": "1Gi"}, requests={"memory": "1Gi"}),
        init=(container("setup"),),
    )
    limits = [
        bounds("Pod", default={"cpu": "9"}),
        bounds(default={"cpu": "500m", "memory": "1Gi"}, defaultRequest={"cpu": "250m"}),
    ]
    set_default_resources(filled, limits)
    web, log = filled["spec"]["containers"]
    (setup,) = filled["spec"]["initContainers"]
    assert web["resources"] == {
        "requests": {"cpu": "1"},
        "limits": {"cpu": "500m", "memory": "1Gi"},
    }
    assert log["resources"]["requests"] == {"memory": "1Gi", "cpu": "250m"}
    assert setup["resources"] == {
        "requests": {"cpu": "250m"},
        "limits": {"cpu": "500m", "memory": "1Gi"},
    }
    assert filled["metadata"]["annotations"] == {
        "kubernetes.io/limit-ranger": "LimitRanger plugin set: "
        "cpu, memory limit for container web; cpu request for container log; "
        "cpu request for init container setup; cpu, memory limit for init container setup"
    }


def test_no_annotation_without_defaults() -> None:
    whole = container(requests={"cpu": "1"}, limits={"cpu": "1"})
    filled = pod(whole)
    set_default_resources(filled, [bounds(default={"cpu": "2"}, defaultRequest={"cpu": "2"})])
    assert filled["metadata"] == {"name": "p"}


SMALL = container(requests={"cpu": "100m"}, limits={"cpu": "200m"})
SIDECAR = container(
    "side", requests={"cpu": "300m"}, limits={"cpu": "300m"}, restartPolicy="Always"
)


@pytest.mark.parametrize(
    ("item", "requested", "problems"),
    [
        (bounds(min={"cpu": "100m"}, max={"cpu": "200m"}), pod(SMALL), []),
        (
            bounds(min={"cpu": "200m"}),
            pod(SMALL),
            ["minimum cpu usage per Container is 200m, but request is 100m"],
        ),
        (
            bounds(min={"memory": "1Mi"}),
            pod(SMALL),
            ["minimum memory usage per Container is 1Mi.  No request is specified"],
        ),
        (
            bounds(max={"cpu": "150m", "memory": "1Gi"}),
            pod(SMALL),
            [
                "maximum cpu usage per Container is 150m, but limit is 200m",
                "maximum memory usage per Container is 1Gi.  No limit is specified",
            ],
        ),
        (bounds(maxLimitRequestRatio={"cpu": "2"}), pod(SMALL), []),
        (
            bounds(maxLimitRequestRatio={"cpu": "1500m"}),
            pod(SMALL),
            [
                "cpu max limit to request ratio per Container is 1500m, "
                "but provided ratio is 2.000000"
            ],
        ),
        (
            bounds(maxLimitRequestRatio={"memory": "2"}),
            pod(SMALL),
            [
                "memory max limit to request ratio per Container is 2, "
                "but no request is specified or request is 0"
            ],
        ),
        (bounds("Pod", max={"cpu": "400m"}), pod(SMALL, SMALL), []),
        (
            bounds("Pod", max={"cpu": "400m"}),
            pod(SMALL, SMALL, init=(SIDECAR,)),
            ["maximum cpu usage per Pod is 400m, but limit is 700m"],
        ),
        (
            bounds("Pod", min={"cpu": "500m"}),
            pod(SMALL, resources={"requests": {"cpu": "400m"}}),
            ["minimum cpu usage per Pod is 500m, but request is 400m"],
        ),
    ],
)
def test_pod_limit_violations(item: Any, requested: Any, problems: list[str]) -> None:
    assert list(pod_violations(requested, [item])) == problems


@pytest.mark.parametrize(
    ("storage", "problems"),
    [
        ("5Gi", []),
        ("1Gi", ["minimum storage usage per PersistentVolumeClaim is 2Gi, but request is 1Gi"]),
        ("9Gi", ["maximum storage usage per PersistentVolumeClaim is 8Gi, but request is 9Gi"]),
    ],
)
def test_claim_limit_violations(storage: str, problems: list[str]) -> None:
    item = bounds("PersistentVolumeClaim", min={"storage": "2Gi"}, max={"storage": "8Gi"})
    claim = {"spec": {"resources": {"requests": {"storage": storage}}}}
    assert list(claim_violations(claim, [item])) == problems


@pytest.mark.looptime
async def test_pod_violating_limits_is_rejected_with_all_reasons() -> None:
    async with run_cluster() as cluster:
        client: Client = cluster.client("test")
        limits = [bounds(max={"cpu": "1", "memory": "1Gi"}, default={"cpu": "500m"})]
        await client.create(
            RANGES, {"metadata": {"name": "l"}, "spec": {"limits": limits}}, "default"
        )
        made = await client.create(PODS, pod(container()), "default")
        assert made["spec"]["containers"][0]["resources"]["limits"] == {
            "cpu": "500m",
            "memory": "1Gi",
        }
        assert made["status"]["qosClass"] == "Guaranteed"
        big = pod(container(limits={"cpu": "2", "memory": "2Gi"}))
        big["metadata"]["name"] = "big"
        with pytest.raises(Forbidden) as rejection:
            await client.create(PODS, big, "default")
        assert rejection.value.message == (
            'pods "big" is forbidden: [maximum cpu usage per Container is 1, but limit is 2, '
            "maximum memory usage per Container is 1Gi, but limit is 2Gi]"
        )
