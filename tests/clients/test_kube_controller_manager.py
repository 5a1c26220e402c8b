"""A genuine kube-controller-manager runs the workloads of an embedded cluster."""

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

from tests.clients.genuine import complaints, kube_controller_manager
from tests.clients.ground import Ground, until
from tests.harness.controlplane import HOW_TO_GET, binaries
from tests.harness.embedded import EmbeddedServer
from tests.harness.kubectl import Kubectl

_FLEET = """
nodes:
  - {name: n, count: 3, start: 20ms, stop: 20ms}
"""
_OURS = "definition-controller,event-expiry"
"""What kube-controller-manager does not do; all else is left to it."""
_EXPLAINED = (
    # There is no proxy in front of the embedded API, as there need not be before any other.
    "requestheader-client-ca-file",
    # It sees that its cache is behind its own writes, and tries again a moment later.
    "is not as new as written version",
    # What it works on goes while it does, with its owner or its namespace.
    'err="sync \\"leaving/',
    # Pods of a namespace took longer than their grace to end, on a busy machine; it looks again.
    "unexpected items still remain in namespace",
)
_IMAGE = "registry.example.com/c"


@pytest.fixture(scope="module")
def managed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    """An embedded cluster whose controllers are Kubernetes' own."""
    if binaries() is None:
        pytest.skip(HOW_TO_GET)
    folder = tmp_path_factory.mktemp("managed")
    fleet = folder / "fleet.yaml"
    fleet.write_text(_FLEET)
    options = ("--port", "0", "--scheduler", "--nodes", str(fleet), f"--controllers={_OURS}")
    with EmbeddedServer.start(folder / "data", *options) as server:
        ground = Ground.on(server, folder)
        signing = [
            f"--cluster-signing-{what}-file={server.data}/pki/ca" for what in ("cert", "key")
        ]
        options = (f"{signing[0]}.crt", f"{signing[1]}.key")
        with kube_controller_manager(server.access, folder, *options) as manager:
            ground.run("wait --for=create serviceaccount/default --timeout=60s")
            yield ground
            assert complaints(manager, *_EXPLAINED) == []


def test_a_deployment_is_rolled_out_and_back_behind_its_service(managed: Ground) -> None:
    namespace = managed.namespace("deployments")

    def run(command: str) -> str:
        return managed.run(command, namespace=namespace)

    run(f"create deployment web --image={_IMAGE}:1 --replicas=3")
    run("rollout status deployment web --timeout=60s")
    run(f"set image deployment/web c={_IMAGE}:2")
    run("rollout status deployment web --timeout=60s")
    run("rollout undo deployment web")
    run("rollout status deployment web --timeout=60s")
    assert managed.read("deployment web", namespace)["spec"]["template"]["spec"]["containers"] == [
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
    (found,) = until(
        lambda: managed.read(slices, namespace)["items"],
        lambda items: items and len(items[0]["endpoints"] or ()) == 3,
    )
    assert all(each["conditions"]["ready"] for each in found["endpoints"])


def test_a_stateful_set_keeps_its_order(managed: Ground) -> None:
    namespace = managed.namespace("statefulsets")
    labels = {"app": "db"}
    _create(
        managed,
        namespace,
        "apps/v1",
        "StatefulSet",
        {
            "serviceName": "db",
            "replicas": 2,
            "selector": {"matchLabels": labels},
            "template": _template(labels),
        },
    )
    managed.run("rollout status statefulset x --timeout=60s", namespace=namespace)
    assert managed.names("pods --sort-by=.metadata.creationTimestamp", namespace) == ["x-0", "x-1"]
    managed.run("scale statefulset x --replicas=1", namespace=namespace)
    until(lambda: managed.names("pods", namespace), lambda names: names == ["x-0"])


def test_a_daemon_set_is_on_every_node(managed: Ground) -> None:
    namespace = managed.namespace("daemonsets")
    labels = {"app": "agent"}
    _create(
        managed,
        namespace,
        "apps/v1",
        "DaemonSet",
        {"selector": {"matchLabels": labels}, "template": _template(labels)},
    )
    managed.run("rollout status daemonset x --timeout=60s", namespace=namespace)
    where = {pod["spec"]["nodeName"] for pod in managed.read("pods", namespace)["items"]}
    assert where == {"n-0", "n-1", "n-2"}


def test_a_job_of_a_cron_job_completes(managed: Ground) -> None:
    namespace = managed.namespace("jobs")
    annotation = {"sim.kilonova.dev/run-seconds": "0.05"}
    template = _template({}, annotation, restartPolicy="Never")
    job = {"completions": 2, "parallelism": 2, "template": template}
    _create(
        managed,
        namespace,
        "batch/v1",
        "CronJob",
        {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": job}},
    )
    managed.run("create job now --from=cronjob/x", namespace=namespace)
    managed.run("wait --for=condition=Complete job/now --timeout=60s", namespace=namespace)
    assert managed.read("job now", namespace)["status"]["succeeded"] == 2


def test_garbage_and_namespaces_are_collected_by_it(managed: Ground) -> None:
    namespace = managed.namespace("leaving")
    labels = {"app": "web"}
    spec = {"replicas": 2, "selector": {"matchLabels": labels}, "template": _template(labels)}
    _create(managed, namespace, "apps/v1", "Deployment", spec)
    managed.run("rollout status deployment x --timeout=60s", namespace=namespace)
    managed.run("delete deployment x --cascade=orphan", namespace=namespace)
    (orphan,) = managed.read("replicasets", namespace)["items"]
    assert "ownerReferences" not in orphan["metadata"]
    name = orphan["metadata"]["name"]
    managed.run(f"delete replicaset {name} --cascade=foreground", namespace=namespace)
    assert managed.names("pods,replicasets", namespace) == []
    _create(managed, namespace, "apps/v1", "Deployment", spec)
    managed.run("rollout status deployment x --timeout=60s", namespace=namespace)
    managed.run(f"delete namespace {namespace} --timeout=60s")
    assert namespace not in managed.names("namespaces")


def test_its_controllers_act_with_tokens_of_their_own(managed: Ground) -> None:
    namespace = managed.namespace("managers")
    managed.run(f"create deployment web --image={_IMAGE}", namespace=namespace)
    managed.run("rollout status deployment web --timeout=60s", namespace=namespace)
    assert "deployment-controller" in managed.names("serviceaccounts", "kube-system")
    can = "auth can-i create replicasets.apps --as=system:serviceaccount:kube-system:"
    assert managed.run(can + "deployment-controller") == "yes\n"
    assert managed.kubectl(can + "job-controller").out == "no\n"


def test_an_approved_certificate_is_signed_and_lets_its_owner_in(
    managed: Ground, tmp_path: Path
) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "jane")])
    request = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, SHA256())
    spec = {
        "request": b64encode(request.public_bytes(Encoding.PEM)).decode(),
        "signerName": "kubernetes.io/kube-apiserver-client",
        "usages": ["client auth"],
    }
    _create(managed, "default", "certificates.k8s.io/v1", "CertificateSigningRequest", spec)
    managed.run("certificate approve x")
    signed = until(lambda: managed.read("csr x"), lambda csr: csr["status"].get("certificate"))
    (tmp_path / "jane.crt").write_bytes(b64decode(signed["status"]["certificate"]))
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (tmp_path / "jane.key").write_bytes(private)
    (tmp_path / "empty").write_text("apiVersion: v1\nkind: Config\n")
    jane = Kubectl(managed.kubectl.binary, tmp_path / "empty", tmp_path)
    access = managed.access
    said = jane(
        f"auth whoami --server={access.url} --certificate-authority={access.ca_file} "
        "--client-certificate=jane.crt --client-key=jane.key "
        "-o jsonpath={.status.userInfo.username}"
    )
    assert said.out == "jane", said.err


def _create(ground: Ground, namespace: str, version: str, kind: str, spec: Any) -> None:
    body = {"apiVersion": version, "kind": kind, "metadata": {"name": "x"}, "spec": spec}
    ground.run("create -f -", json.dumps(body), namespace)


def _template(labels: Any, annotations: Any = None, **spec: Any) -> Any:
    container = {"name": "c", "image": _IMAGE}
    return {
        "metadata": {"labels": labels, "annotations": annotations},
        "spec": {"terminationGracePeriodSeconds": 1, "containers": [container], **spec},
    }
