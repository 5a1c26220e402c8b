"""kube-controller-manager runs the workloads of an embedded cluster."""

import json
from base64 import b64decode, b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from tests.clients.client_cluster import ClientCluster, wait_until
from tests.clients.kube_components import kube_controller_manager, list_log_errors
from tests.harness.embedded_server import EmbeddedServer
from tests.harness.kubectl import Kubectl

_FLEET = """
nodes:
  - {name: n, count: 3, start: 20ms, stop: 20ms}
"""
_EMBEDDED_CONTROLLERS = "definition-controller,event-expiry"
"""What kube-controller-manager does not do; all else is left to it."""
_EXPECTED_ERRORS = (
    # The embedded API has no front proxy, which is optional in any cluster.
    "requestheader-client-ca-file",
    # Its cache lags behind its own writes, and it retries.
    "is not as new as written version",
    # Objects are deleted meanwhile, with their owner or namespace.
    'err="sync \\"leaving/',
    # On a busy machine pods of a namespace terminate late, and it retries.
    "unexpected items still remain in namespace",
)
_IMAGE = "registry.example.com/c"


@pytest.fixture(scope="module")
def managed_cluster(
    control_plane_binaries: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ClientCluster]:
    """An embedded cluster with the controllers of kube-controller-manager."""
    folder = tmp_path_factory.mktemp("managed_cluster")
    fleet = folder / "fleet.yaml"
    fleet.write_text(_FLEET)
    options = (
        "--port",
        "0",
        "--scheduler",
        "--nodes",
        str(fleet),
        f"--controllers={_EMBEDDED_CONTROLLERS}",
    )
    with EmbeddedServer.start(folder / "data", *options) as server:
        client_cluster = ClientCluster.from_server(server, folder)
        signing = [
            f"--cluster-signing-{what}-file={server.data}/pki/ca" for what in ("cert", "key")
        ]
        options = (f"{signing[0]}.crt", f"{signing[1]}.key")
        with kube_controller_manager(server.access, folder, *options) as manager:
            client_cluster.run_kubectl("wait --for=create serviceaccount/default --timeout=60s")
            yield client_cluster
            assert list_log_errors(manager, *_EXPECTED_ERRORS) == []


def test_a_deployment_is_rolled_out_and_back_behind_its_service(
    managed_cluster: ClientCluster,
) -> None:
    namespace = managed_cluster.create_namespace("deployments")

    def run(command: str) -> str:
        return managed_cluster.run_kubectl(command, namespace=namespace)

    run(f"create deployment web --image={_IMAGE}:1 --replicas=3")
    run("rollout status deployment web --timeout=60s")
    run(f"set image deployment/web c={_IMAGE}:2")
    run("rollout status deployment web --timeout=60s")
    run("rollout undo deployment web")
    run("rollout status deployment web --timeout=60s")
    assert managed_cluster.get_json("deployment web", namespace)["spec"]["template"]["spec"][
        "containers"
    ] == [
        {
            "name": "c",
            "image": f"{_IMAGE}:1",
            "imagePullPolicy": "IfNotPresent",
            "resources": {},
            "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File",
        }
    ]
    run("expose deployment web --port=80")
    slices = "endpointslices -l kubernetes.io/service-name=web"
    (found,) = wait_until(
        lambda: managed_cluster.get_json(slices, namespace)["items"],
        lambda items: items and len(items[0]["endpoints"] or ()) == 3,
    )
    assert all(each["conditions"]["ready"] for each in found["endpoints"])


def test_a_stateful_set_keeps_its_order(managed_cluster: ClientCluster) -> None:
    namespace = managed_cluster.create_namespace("statefulsets")
    labels = {"app": "db"}
    _create_object(
        managed_cluster,
        namespace,
        "apps/v1",
        "StatefulSet",
        {
            "serviceName": "db",
            "replicas": 2,
            "selector": {"matchLabels": labels},
            "template": _build_pod_template(labels),
        },
    )
    managed_cluster.run_kubectl("rollout status statefulset x --timeout=60s", namespace=namespace)
    assert managed_cluster.list_names("pods --sort-by=.metadata.creationTimestamp", namespace) == [
        "x-0",
        "x-1",
    ]
    managed_cluster.run_kubectl("scale statefulset x --replicas=1", namespace=namespace)
    wait_until(
        lambda: managed_cluster.list_names("pods", namespace), lambda names: names == ["x-0"]
    )


def test_daemon_set_runs_on_every_node(managed_cluster: ClientCluster) -> None:
    namespace = managed_cluster.create_namespace("daemonsets")
    labels = {"app": "agent"}
    _create_object(
        managed_cluster,
        namespace,
        "apps/v1",
        "DaemonSet",
        {"selector": {"matchLabels": labels}, "template": _build_pod_template(labels)},
    )
    managed_cluster.run_kubectl("rollout status daemonset x --timeout=60s", namespace=namespace)
    where = {
        pod["spec"]["nodeName"] for pod in managed_cluster.get_json("pods", namespace)["items"]
    }
    assert where == {"n-0", "n-1", "n-2"}


def test_a_job_of_a_cron_job_completes(managed_cluster: ClientCluster) -> None:
    namespace = managed_cluster.create_namespace("jobs")
    annotation = {"sim.kilonova.dev/run-seconds": "0.05"}
    template = _build_pod_template({}, annotation, restartPolicy="Never")
    job = {"completions": 2, "parallelism": 2, "template": template}
    _create_object(
        managed_cluster,
        namespace,
        "batch/v1",
        "CronJob",
        {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": job}},
    )
    managed_cluster.run_kubectl("create job now --from=cronjob/x", namespace=namespace)
    managed_cluster.run_kubectl(
        "wait --for=condition=Complete job/now --timeout=60s", namespace=namespace
    )
    assert managed_cluster.get_json("job now", namespace)["status"]["succeeded"] == 2


def test_garbage_and_namespaces_are_collected(managed_cluster: ClientCluster) -> None:
    namespace = managed_cluster.create_namespace("leaving")
    labels = {"app": "web"}
    spec = {
        "replicas": 2,
        "selector": {"matchLabels": labels},
        "template": _build_pod_template(labels),
    }
    _create_object(managed_cluster, namespace, "apps/v1", "Deployment", spec)
    managed_cluster.run_kubectl("rollout status deployment x --timeout=60s", namespace=namespace)
    managed_cluster.run_kubectl("delete deployment x --cascade=orphan", namespace=namespace)
    (orphan,) = managed_cluster.get_json("replicasets", namespace)["items"]
    assert "ownerReferences" not in orphan["metadata"]
    name = orphan["metadata"]["name"]
    managed_cluster.run_kubectl(
        f"delete replicaset {name} --cascade=foreground", namespace=namespace
    )
    assert managed_cluster.list_names("pods,replicasets", namespace) == []
    _create_object(managed_cluster, namespace, "apps/v1", "Deployment", spec)
    managed_cluster.run_kubectl("rollout status deployment x --timeout=60s", namespace=namespace)
    managed_cluster.run_kubectl(f"delete namespace {namespace} --timeout=60s")
    assert namespace not in managed_cluster.list_names("namespaces")


def test_controllers_use_their_own_tokens(managed_cluster: ClientCluster) -> None:
    namespace = managed_cluster.create_namespace("managers")
    managed_cluster.run_kubectl(f"create deployment web --image={_IMAGE}", namespace=namespace)
    managed_cluster.run_kubectl("rollout status deployment web --timeout=60s", namespace=namespace)
    assert "deployment-controller" in managed_cluster.list_names("serviceaccounts", "kube-system")
    can = "auth can-i create replicasets.apps --as=system:serviceaccount:kube-system:"
    assert managed_cluster.run_kubectl(can + "deployment-controller") == "yes\n"
    assert managed_cluster.kubectl(can + "job-controller").out == "no\n"


def test_approved_certificate_is_signed_and_authenticates(
    managed_cluster: ClientCluster, tmp_path: Path
) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "jane")])
    request = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, SHA256())
    spec = {
        "request": b64encode(request.public_bytes(Encoding.PEM)).decode(),
        "signerName": "kubernetes.io/kube-apiserver-client",
        "usages": ["client auth"],
    }
    _create_object(
        managed_cluster, "default", "certificates.k8s.io/v1", "CertificateSigningRequest", spec
    )
    managed_cluster.run_kubectl("certificate approve x")
    signed = wait_until(
        lambda: managed_cluster.get_json("csr x"), lambda csr: csr["status"].get("certificate")
    )
    (tmp_path / "jane.crt").write_bytes(b64decode(signed["status"]["certificate"]))
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (tmp_path / "jane.key").write_bytes(private)
    (tmp_path / "empty").write_text("apiVersion: v1\nkind: Config\n")
    jane = Kubectl(managed_cluster.kubectl.binary, tmp_path / "empty", tmp_path)
    access = managed_cluster.access
    said = jane(
        f"auth whoami --server={access.url} --certificate-authority={access.ca_file} "
        "--client-certificate=jane.crt --client-key=jane.key "
        "-o jsonpath={.status.userInfo.username}"
    )
    assert said.out == "jane", said.err


def _create_object(
    client_cluster: ClientCluster, namespace: str, version: str, kind: str, spec: Any
) -> None:
    body = {"apiVersion": version, "kind": kind, "metadata": {"name": "x"}, "spec": spec}
    client_cluster.run_kubectl("create -f -", json.dumps(body), namespace)


def _build_pod_template(labels: Any, annotations: Any = None, **spec: Any) -> Any:
    container = {"name": "c", "image": _IMAGE}
    return {
        "metadata": {"labels": labels, "annotations": annotations},
        "spec": {"terminationGracePeriodSeconds": 1, "containers": [container], **spec},
    }
