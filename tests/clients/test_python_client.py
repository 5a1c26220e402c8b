"""The official Python client, `kubernetes`, on the embedded cluster."""

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from kubernetes.client.exceptions import ApiException
from kubernetes.dynamic.exceptions import ConflictError
from kubernetes.leaderelection import electionconfig, leaderelection
from kubernetes.leaderelection.resourcelock.configmaplock import ConfigMapLock

from kubernetes import client, config, dynamic, watch
from tests.clients.client_cluster import TIMEOUT_SECONDS, ClientCluster, wait_until

_LOCK = "control-plane.alpha.kubernetes.io/leader"
_DEFINITION: Any = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "shelves.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "shelves", "singular": "shelf", "kind": "Shelf"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {"books": {"type": "integer", "minimum": 0}},
                            },
                            "status": {
                                "type": "object",
                                "x-kubernetes-preserve-unknown-fields": True,
                            },
                        },
                    }
                },
            }
        ],
    },
}


@pytest.fixture(scope="module")
def python(client_cluster: ClientCluster) -> Iterator[client.ApiClient]:
    """A client configured by the cluster's kubeconfig."""
    with config.new_client_from_config(str(client_cluster.access.kubeconfig)) as api:
        yield api


@pytest.fixture
def namespace(client_cluster: ClientCluster, request: pytest.FixtureRequest) -> str:
    return client_cluster.create_namespace(request.node.name.replace("_", "-")[:50].rstrip("-"))


def test_typed_objects_are_created_read_changed_and_deleted(
    python: client.ApiClient, namespace: str
) -> None:
    apps: Any = client.AppsV1Api(python)
    made = apps.create_namespaced_deployment(namespace, _build_deployment(2))
    assert made.spec.strategy.rolling_update.max_surge == "25%"
    ready = wait_until(
        lambda: apps.read_namespaced_deployment_status("web", namespace),
        lambda deployment: deployment.status.ready_replicas == 2,
    )
    ready.spec.replicas = 1
    ready.metadata.resource_version = None  # its controller may write concurrently
    replaced = apps.replace_namespaced_deployment("web", namespace, ready)
    assert (replaced.spec.replicas, replaced.metadata.generation) == (1, 2)
    with pytest.raises(ApiException) as stale:
        apps.replace_namespaced_deployment("web", namespace, made)
    assert (stale.value.status, json.loads(str(stale.value.body))["reason"]) == (409, "Conflict")
    scale = apps.read_namespaced_deployment_scale("web", namespace)
    scale.spec.replicas = 3
    scale.metadata.resource_version = None
    apps.replace_namespaced_deployment_scale("web", namespace, scale)
    assert apps.read_namespaced_deployment("web", namespace).spec.replicas == 3
    apps.delete_namespaced_deployment("web", namespace, propagation_policy="Background")
    core: Any = client.CoreV1Api(python)
    wait_until(lambda: core.list_namespaced_pod(namespace).items, lambda pods: not pods)


def test_every_patch_type_is_supported(python: client.ApiClient, namespace: str) -> None:
    apps: Any = client.AppsV1Api(python)
    apps.create_namespaced_deployment(namespace, _build_deployment(0))

    def patch(body: Any, kind: str) -> Any:
        return apps.patch_namespaced_deployment("web", namespace, body, _content_type=kind)

    other = {"name": "other", "image": "registry.example.com/other"}
    strategic = patch(
        {"spec": {"template": {"spec": {"containers": [other]}}}},
        "application/strategic-merge-patch+json",
    )
    names = [each.name for each in strategic.spec.template.spec.containers]
    assert sorted(names) == ["other", "web"]
    merged = patch(
        {"spec": {"template": {"spec": {"containers": [other]}}}}, "application/merge-patch+json"
    )
    assert [each.name for each in merged.spec.template.spec.containers] == ["other"]
    operation = {"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}
    assert patch([operation], "application/json-patch+json").metadata.labels == {"a": "b"}


def test_a_watch_is_resumed_where_it_ended(python: client.ApiClient, namespace: str) -> None:
    core: Any = client.CoreV1Api(python)

    def write(name: str) -> None:
        core.create_namespaced_config_map(namespace, {"metadata": {"name": name}})

    write("first")
    version = core.list_namespaced_config_map(namespace).metadata.resource_version
    write("second")
    watching: Any = watch.Watch()
    options: Any = {"namespace": namespace, "timeout_seconds": 10}
    for event in watching.stream(
        core.list_namespaced_config_map, resource_version=version, **options
    ):
        assert (event["type"], event["object"].metadata.name) == ("ADDED", "second")
        watching.stop()
    write("third")
    core.delete_namespaced_config_map("first", namespace)
    seen: list[tuple[str, str]] = []
    resumed: Any = watch.Watch()
    for event in resumed.stream(
        core.list_namespaced_config_map, resource_version=watching.resource_version, **options
    ):
        seen.append((event["type"], event["object"].metadata.name))
        if len(seen) == 2:
            resumed.stop()
    assert seen == [("ADDED", "third"), ("DELETED", "first")]


def test_a_dynamic_client_discovers_and_applies(python: client.ApiClient, namespace: str) -> None:
    found = dynamic.DynamicClient(python)
    maps: Any = found.resources.get(api_version="v1", kind="ConfigMap")
    wanted = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "applied"},
        "data": {"a": "1"},
    }
    applied: Any = maps.server_side_apply(wanted, namespace=namespace, field_manager="one")
    (entry,) = applied.metadata.managedFields
    assert (entry.manager, entry.operation) == ("one", "Apply")
    with pytest.raises(ConflictError) as conflict:
        maps.server_side_apply(
            {**wanted, "data": {"a": "2"}}, namespace=namespace, field_manager="two"
        )
    assert 'conflict with "one"' in str(conflict.value.summary())
    forced = maps.server_side_apply(
        {**wanted, "data": {"a": "2"}},
        namespace=namespace,
        field_manager="two",
        force_conflicts=True,
    )
    assert forced.data.a == "2"
    core: Any = client.CoreV1Api(python)
    plurals = {each.name for each in core.get_api_resources().resources}
    assert {"pods", "pods/status", "nodes", "configmaps"} <= plurals
    apis: Any = client.ApisApi(python)
    groups = {each.name for each in apis.get_api_versions().groups}
    assert {"apps", "batch", "rbac.authorization.k8s.io"} <= groups
    version: Any = client.VersionApi(python).get_code()
    assert version.git_version.startswith("v1.36.")


def test_custom_objects_are_validated_and_have_a_status(
    python: client.ApiClient, namespace: str
) -> None:
    extensions: Any = client.ApiextensionsV1Api(python)
    extensions.create_custom_resource_definition(_DEFINITION)
    wait_until(
        lambda: extensions.read_custom_resource_definition("shelves.example.com"),
        lambda found: {c.type: c.status for c in found.status.conditions or ()}.get("Established"),
    )
    custom: Any = client.CustomObjectsApi(python)
    where = ("example.com", "v1", namespace, "shelves")
    shelf = {"apiVersion": "example.com/v1", "kind": "Shelf", "metadata": {"name": "a"}}
    with pytest.raises(ApiException) as refused:
        custom.create_namespaced_custom_object(*where, {**shelf, "spec": {"books": -1}})
    assert refused.value.status == 422
    assert "should be greater than or equal to 0" in str(refused.value.body)
    custom.create_namespaced_custom_object(*where, {**shelf, "spec": {"books": 3}})
    custom.patch_namespaced_custom_object(*where, "a", {"spec": {"books": 4}})
    custom.patch_namespaced_custom_object_status(*where, "a", {"status": {"full": True}})
    (found,) = custom.list_namespaced_custom_object(*where)["items"]
    assert (found["spec"], found["status"]) == ({"books": 4}, {"full": True})
    custom.delete_namespaced_custom_object(*where, "a")
    assert custom.list_namespaced_custom_object(*where)["items"] == []


def test_a_leader_stops_when_another_holds_the_lock(
    client_cluster: ClientCluster, namespace: str
) -> None:
    config.load_kube_config(
        str(client_cluster.access.kubeconfig)
    )  # the lock uses the default client
    leading, stopped = threading.Event(), threading.Event()
    election = electionconfig.Config(
        ConfigMapLock("crown", namespace, "me"),
        lease_duration=3,
        renew_deadline=2,
        retry_period=1,
        onstarted_leading=leading.set,
        onstopped_leading=stopped.set,
    )
    candidate = threading.Thread(target=leaderelection.LeaderElection(election).run, daemon=True)
    candidate.start()
    assert leading.wait(TIMEOUT_SECONDS)
    record = json.loads(
        client_cluster.get_json("configmap crown", namespace)["metadata"]["annotations"][_LOCK]
    )
    assert record["holderIdentity"] == "me"
    usurper = json.dumps({**record, "holderIdentity": "you", "leaseDurationSeconds": "60"})
    client_cluster.run_kubectl(
        ["annotate", "--overwrite", "configmap/crown", f"{_LOCK}={usurper}"], "", namespace
    )
    assert stopped.wait(TIMEOUT_SECONDS)
    candidate.join(TIMEOUT_SECONDS)


def _build_deployment(replicas: int) -> Any:
    container = client.V1Container(name="web", image="registry.example.com/web")
    template = client.V1PodTemplateSpec(
        metadata=client.V1ObjectMeta(labels={"app": "web"}),
        spec=client.V1PodSpec(containers=[container], termination_grace_period_seconds=1),
    )
    return client.V1Deployment(
        metadata=client.V1ObjectMeta(name="web"),
        spec=client.V1DeploymentSpec(
            replicas=replicas,
            selector=client.V1LabelSelector(match_labels={"app": "web"}),
            template=template,
        ),
    )
