"""Validation of built-in kinds: each message was recorded from a real server."""

from copy import deepcopy
from typing import Any

import pytest

from kilonova.local.apimachinery.names import validate_object_meta
from tests.local.apiserver.kinds.recorded_objects import manifests, served_kinds
from tests.local.apiserver.registry.api_requests import send
from tests.local.embedded_cluster import run_cluster

GONE: Any = object()


def edited(original: Any, edits: dict[str, Any]) -> Any:
    """A copy with values set at paths like `spec/containers/0/image`."""
    obj = deepcopy(original)
    for path, value in edits.items():
        *steps, last = [int(step) if step.isdigit() else step for step in path.split("/")]
        parent: Any = obj
        for step in steps:
            parent = parent[step]
        if value is GONE:
            del parent[last]
        else:
            parent[last] = value
    return obj


def rejections_of(obj: Any) -> list[str]:
    """The errors of creating the object."""
    kind = served_kinds()[obj["apiVersion"], obj["kind"]]
    kind.strategy.default(obj)
    obj["metadata"].update(uid="UID", creationTimestamp="2026-01-02T03:04:05Z")
    kind.strategy.prepare_create(obj)
    problems = validate_object_meta(obj["metadata"], kind.namespaced, kind.strategy.name_error)
    return [str(problem) for problem in problems + kind.strategy.validate(obj)]


CONTAINER = "spec/containers/0"
REFUSED: list[tuple[str, dict[str, Any], list[str]]] = [
    ("Pod pod-small", {"spec/containers": []}, ["spec.containers: Required value"]),
    (
        "Pod pod-small",
        {"spec/containers": [{"name": "a", "image": "x"}, {"name": "a", "image": "y"}]},
        ['spec.containers[1].name: Duplicate value: "a"'],
    ),
    (
        "Pod pod-small",
        {f"{CONTAINER}/image": GONE},
        ["spec.containers[0].image: Required value"],
    ),
    (
        "Pod pod-small",
        {"spec/restartPolicy": "Sometimes"},
        [
            'spec.restartPolicy: Unsupported value: "Sometimes": '
            'supported values: "Always", "OnFailure", "Never"'
        ],
    ),
    (
        "Pod pod-small",
        {f"{CONTAINER}/ports": [{"containerPort": 70000}]},
        [
            "spec.containers[0].ports[0].containerPort: Invalid value: 70000: "
            "must be between 1 and 65535, inclusive"
        ],
    ),
    (
        "Pod pod-small",
        {f"{CONTAINER}/resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1000m"}}},
        [
            'spec.containers[0].resources.requests: Invalid value: "2": '
            "must be less than or equal to cpu limit of 1"
        ],
    ),
    (
        "Pod pod-small",
        {f"{CONTAINER}/resources": {"requests": {"nvidia.com/gpu": "2"}}},
        [
            "spec.containers[0].resources.limits: Required value: "
            "Limit must be set for non overcommitable resources"
        ],
    ),
    (
        "Pod pod-small",
        {f"{CONTAINER}/resources": {"limits": {"nvidia.com/gpu": "500m"}}},
        [
            'spec.containers[0].resources.limits[nvidia.com/gpu]: Invalid value: "500m": '
            "must be an integer",
            'spec.containers[0].resources.requests[nvidia.com/gpu]: Invalid value: "500m": '
            "must be an integer",
        ],
    ),
    (
        "Pod pod-small",
        {f"{CONTAINER}/volumeMounts": [{"name": "nope", "mountPath": "/x"}]},
        ['spec.containers[0].volumeMounts[0].name: Not found: "nope"'],
    ),
    (
        "Pod pod-small",
        {f"{CONTAINER}/livenessProbe": {}},
        ["spec.containers[0].livenessProbe: Required value: must specify a handler type"],
    ),
    (
        "Pod pod-small",
        {"spec/nodeName": "n", "spec/schedulingGates": [{"name": "a"}]},
        ["spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared"],
    ),
    (
        "Deployment deployment",
        {"spec/selector/matchLabels": {"app": "y"}},
        [
            'spec.template.metadata.labels: Invalid value: {"app":"x"}: '
            "`selector` does not match template `labels`"
        ],
    ),
    (
        "Deployment deployment",
        {"spec/selector": {}},
        ["spec.selector: Invalid value: {}: empty selector is invalid for deployment"],
    ),
    (
        "Deployment deployment",
        {"spec/strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}},
        [
            "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: 0: "
            "may not be 0 when `maxSurge` is 0"
        ],
    ),
    (
        "Job job",
        {"spec/template/spec/restartPolicy": "Always"},
        ['spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"'],
    ),
    (
        "Job job",
        {"spec/selector": {"matchLabels": {"a": "b"}}},
        [
            'spec.selector: Invalid value: {"matchLabels":{"a":"b",'
            '"batch.kubernetes.io/controller-uid":"UID"}}: `selector` not auto-generated',
            "spec.template.metadata.labels: Invalid value: "
            '{"batch.kubernetes.io/controller-uid":"UID","batch.kubernetes.io/job-name":"job",'
            '"controller-uid":"UID","job-name":"job"}: '
            "`selector` does not match template `labels`",
        ],
    ),
    (
        "CronJob cronjob",
        {"spec/schedule": "nonsense"},
        [
            'spec.schedule: Invalid value: "nonsense": '
            "expected exactly 5 fields, found 1: [nonsense]"
        ],
    ),
    ("Service service-small", {"spec/ports": []}, ["spec.ports: Required value"]),
    (
        "Service service-small",
        {"spec/ports": [{"port": 80}, {"port": 81}]},
        ["spec.ports[0].name: Required value", "spec.ports[1].name: Required value"],
    ),
    (
        "Secret secret",
        {"type": "kubernetes.io/tls"},
        ["data[tls.crt]: Required value", "data[tls.key]: Required value"],
    ),
    (
        "PriorityClass high",
        {"value": 2000000000},
        ["value: Forbidden: maximum allowed value of a user defined priority is 1000000000"],
    ),
    (
        "HorizontalPodAutoscaler hpa-two",
        {"spec/maxReplicas": 0},
        [
            "spec.maxReplicas: Required value: must be set and greater than 0",
            "spec.maxReplicas: Invalid value: 0: must be greater than or equal to `minReplicas`",
        ],
    ),
    (
        "Role role",
        {"rules": [{"apiGroups": [""], "resources": ["pods"]}]},
        ["rules[0].verbs: Required value: verbs must contain at least one value"],
    ),
    (
        "Namespace space",
        {"metadata/name": "a.b"},
        ['metadata.name: Invalid value: "a.b": must not contain dots'],
    ),
    (
        "NetworkPolicy policy",
        {"spec/podSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}},
        [
            "spec.podSelector.matchExpressions[0].values: Required value: "
            "must be specified when `operator` is 'In' or 'NotIn'"
        ],
    ),
]


@pytest.mark.parametrize(("name", "edits", "expected"), REFUSED)
def test_rejects_with_kubernetes_messages(
    name: str, edits: dict[str, Any], expected: list[str]
) -> None:
    assert rejections_of(edited(manifests()[name], edits)) == expected


FIXED: list[tuple[str, dict[str, Any], list[str]]] = [
    ("Pod pod-small", {f"{CONTAINER}/image": "nginx:2"}, []),
    ("Pod pod-small", {"spec/activeDeadlineSeconds": 10}, []),
    ("Pod pod-gated", {"spec/schedulingGates": GONE}, []),
    ("Pod pod-gated", {"spec/nodeSelector": {"a": "b"}}, []),
    (
        "Pod pod-gated",
        {"spec/schedulingGates": [{"name": "example.com/other"}]},
        [
            "spec.schedulingGates[0].name: Forbidden: only deletion is allowed, but found new "
            "scheduling gate 'example.com/other'"
        ],
    ),
    (
        "Pod pod-small",
        {"spec/containers": [{"name": "a", "image": "b"}, {"name": "c", "image": "d"}]},
        ["spec.containers: Forbidden: pod updates may not add or remove containers"],
    ),
    (
        "Pod pod-large",
        {"spec/tolerations": []},
        [
            "spec.tolerations: Forbidden: "
            "existing toleration can not be modified except its tolerationSeconds"
        ],
    ),
    (
        "Deployment deployment",
        {"spec/selector/matchLabels": {"app": "y"}},
        ['spec.selector: Invalid value: {"matchLabels":{"app":"y"}}: field is immutable'],
    ),
    (
        "StatefulSet statefulset",
        {"spec/serviceName": "other"},
        [
            "spec: Forbidden: updates to statefulset spec for fields other than 'replicas', "
            "'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', "
            "'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
        ],
    ),
    ("Job job", {"spec/parallelism": 3, "spec/suspend": True}, []),
    (
        "Job job",
        {"spec/completions": 3},
        ["spec.completions: Invalid value: 3: field is immutable"],
    ),
    (
        "ConfigMap config-fixed",
        {"data": {"a": "c"}},
        ["data: Forbidden: field is immutable when `immutable` is set"],
    ),
    (
        "RoleBinding binding",
        {"roleRef/name": "x"},
        [
            'roleRef: Invalid value: {"APIGroup":"rbac.authorization.k8s.io","Kind":"Role",'
            '"Name":"x"}: cannot change roleRef'
        ],
    ),
    (
        "Service service-small",
        {"spec/clusterIP": "10.96.0.99", "spec/clusterIPs": ["10.96.0.99"]},
        ['spec.clusterIPs[0]: Invalid value: ["10.96.0.99"]: may not change once set'],
    ),
]


@pytest.mark.parametrize(("name", "edits", "expected"), FIXED)
def test_immutable_fields_cannot_change(
    name: str, edits: dict[str, Any], expected: list[str]
) -> None:
    old = deepcopy(manifests()[name])
    strategy = served_kinds()[old["apiVersion"], old["kind"]].strategy
    strategy.default(old)
    old["metadata"].update(uid="UID", creationTimestamp="2026-01-02T03:04:05Z")
    strategy.prepare_create(old)
    new = edited(old, edits)
    strategy.default(new)
    strategy.prepare_update(new, deepcopy(old))
    assert [str(problem) for problem in strategy.validate_update(new, old)] == expected


def test_forbidden_pod_update_lists_the_mutable_fields() -> None:
    strategy = served_kinds()["v1", "Pod"].strategy
    old = deepcopy(manifests()["Pod pod-small"])
    strategy.default(old)
    new = deepcopy(old)
    new["spec"]["nodeName"] = "n"
    (problem,) = strategy.validate_update(new, old)
    assert problem.path == "spec"
    assert problem.reason == "FieldValueForbidden"
    assert "pod updates may not change fields other than `spec.containers[*].image`" in str(problem)


async def test_network_policy_write_warns_that_it_is_not_enforced() -> None:
    policies = "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies"
    policy: Any = {"metadata": {"name": "deny"}, "spec": {"podSelector": {}}}
    expected = (
        '299 - "NetworkPolicy is not enforced on this cluster: all pods can reach each other"'
    )
    async with run_cluster(controllers="") as cluster:
        result = await send(cluster, policies, "POST", policy)
        assert (result.status, result.headers["warning"]) == (201, expected)
        changed = await send(
            cluster,
            f"{policies}/deny",
            "PUT",
            {**policy, "spec": {"podSelector": {"matchLabels": {"a": "b"}}}},
        )
        assert (changed.status, changed.headers["warning"]) == (200, expected)
        seen = await send(cluster, f"{policies}/deny")
        assert "warning" not in seen.headers
