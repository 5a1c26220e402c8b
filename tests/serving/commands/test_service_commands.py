"""`kilonova serve` on a cluster: services are applied, shown, steered and deleted."""

import hashlib
import json
import threading
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.command import Kilonova, complete_words
from tests.conftest import Api
from tests.harness.access import ServerAccess
from tests.serving.commands.conftest import Run

SERVICES = "/apis/serving.kilonova.dev/v1alpha1/namespaces/{}/inferenceservices"
SERVICE = """
apiVersion: serving.kilonova.dev/v1alpha1
kind: InferenceService
metadata: {name: web}
spec:
  servers:
  - {name: a, image: x, autoscaling: {minReplicas: 1, maxReplicas: 3}}
"""
VALUES = "triton: {replicas: 2}\n"


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    file = tmp_path / "web.yaml"
    file.write_text(SERVICE)
    return file


def read(cluster: Api, name: str = "web") -> dict[str, Any]:
    path = f"{SERVICES.format(cluster.namespace)}/{name}"
    status, body = cluster.access.request("GET", path)
    assert status == 200, body
    return body


def write_status(cluster: Api, **status: Any) -> None:
    """What a controller would write."""
    found = read(cluster)
    observed = {"observedGeneration": found["metadata"]["generation"], "ready": 0, "replicas": 0}
    path = f"{SERVICES.format(cluster.namespace)}/web/status"
    code, body = cluster.access.request(
        "PUT", path, {**found, "status": {**observed, "gateways": 1, **status}}
    )
    assert code == 200, body


def test_service_is_created_changed_and_left_alone(
    serve: Run, cluster: Api, manifest: Path
) -> None:
    done = serve("-f", manifest, "--dry-run")
    assert (done.code, done.err) == (0, "inferenceservice/web created (dry run)\n")
    assert serve("list").err == "no inference services\n"
    assert serve("-f", manifest, "--no-wait").err == "inferenceservice/web created\n"
    assert serve("-f", manifest, "--no-wait").err == "inferenceservice/web unchanged\n"
    manifest.write_text(SERVICE.replace("maxReplicas: 3", "maxReplicas: 4"))
    assert serve("-f", manifest, "--dry-run").err == "inferenceservice/web changed (dry run)\n"
    assert serve("-f", manifest, "--no-wait").err == "inferenceservice/web changed\n"
    assert read(cluster)["spec"]["servers"][0]["autoscaling"]["maxReplicas"] == 4


def test_values_of_a_release_are_served(serve: Run, cluster: Api, tmp_path: Path) -> None:
    file = tmp_path / "values.yaml"
    file.write_text(VALUES)
    done = serve("-f", file, "--release", "sonic", "-o", "yaml")
    first, *_ = yaml.safe_load_all(done.out)
    assert first["metadata"]["namespace"] == cluster.namespace
    done = serve("-f", file, "--release", "sonic", "--no-wait")
    assert done.code == 0, done.err
    assert "inferenceservice/sonic created" in done.err
    service = read(cluster, "sonic")
    assert service["spec"]["servers"][0]["runtime"] == "Triton"
    path = f"/api/v1/namespaces/{cluster.namespace}/services/sonic-triton"
    (owner,) = cluster.access.request("GET", path)[1]["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"]) == ("InferenceService", service["metadata"]["uid"])
    done = serve("-f", file, "--release", "sonic", "--no-wait")
    assert "inferenceservice/sonic unchanged\nservice/sonic-triton unchanged\n" in done.err


def test_what_later_values_lack_is_deleted(serve: Run, cluster: Api, tmp_path: Path) -> None:
    file = tmp_path / "values.yaml"
    words = ("-f", file, "--release", "sonic", "--no-wait")
    collector = "metricsCollector: {enabled: true, ingress: {enabled: true, hostName: a.b}}\n"
    file.write_text(VALUES + collector)
    assert "ingress/sonic-metrics-collector created" in serve(*words).err
    done = serve("-f", file, "--release", "other", "--no-wait")
    assert "service/other-metrics-collector created" in done.err
    file.write_text(VALUES)
    deleted = (
        "service/sonic-metrics-collector deleted{0}\ningress/sonic-metrics-collector deleted{0}"
    )
    assert deleted.format(" (dry run)") in serve(*words, "--dry-run").err
    assert deleted.format("") in serve(*words).err
    assert "deleted" not in serve(*words).err
    path = f"/api/v1/namespaces/{cluster.namespace}/services"
    names = {each["metadata"]["name"] for each in cluster.access.request("GET", path)[1]["items"]}
    assert names == {"sonic-triton", "other-triton", "other-metrics-collector"}


def test_service_is_waited_for_and_its_addresses_are_printed(
    serve: Run, cluster: Api, manifest: Path
) -> None:
    serve("-f", manifest, "--no-wait")
    timer = threading.Timer(
        0.5,
        lambda: write_status(
            cluster, phase="Ready", ready=2, url="http://h:8000", grpcAddress="h:8001"
        ),
    )
    timer.start()
    done = serve("-f", manifest, "--timeout", "30s")
    timer.join()
    assert done.code == 0, done.err
    assert "web: waiting for the controller\n" in done.err
    assert done.out.splitlines()[:3] == [
        f"{cluster.namespace}/web is ready: 2 of 2 servers",
        "  HTTP  http://h:8000",
        "  gRPC  h:8001",
    ]


def test_service_that_does_not_become_ready_fails_with_its_reason(
    serve: Run, cluster: Api, manifest: Path
) -> None:
    done = serve("-f", manifest, "--timeout", "1s")
    assert done.code == 1
    assert "`kilonova status` (on a cluster `kilonova doctor`) shows whether it runs" in done.err
    condition = {"type": "ConfigurationAccepted", "status": "False", "reason": "NoSecret"}
    condition |= {
        "message": "Secret x does not exist",
        "lastTransitionTime": "2026-11-19T15:00:00Z",
    }
    write_status(cluster, phase="Failed", conditions=[condition])
    done = serve("-f", manifest)
    assert done.code == 1
    assert "web has failed: NoSecret: Secret x does not exist" in done.err


def test_service_is_listed_shown_and_explained(serve: Run, cluster: Api, manifest: Path) -> None:
    serve("-f", manifest, "--no-wait")
    scaling = {"name": "a", "desired": 2, "mode": "Demand", "message": "9 in flight"}
    load = {"inFlight": 9, "requestsPerSecond": 12.5, "latencyP95": 31.0}
    servers = [{"name": "a", "desired": 2, "replicas": 2, "ready": 1, "message": "b is starting"}]
    traced = {"traceId": "a" * 32, "time": "2026-11-19T15:00:00Z", "duration": 1741.0}
    traced |= {"request": "gRPC ModelInfer", "status": "UNAVAILABLE", "serverTime": 3.25}
    write_status(
        cluster,
        phase="Ready",
        ready=1,
        replicas=2,
        servers=servers,
        scaling=[{**scaling, "load": load}],
        traces=[traced],
        url="http://h:8000",
    )
    header, row = (line.split() for line in serve("list").out.splitlines())
    assert header[:4] == ["NAMESPACE", "NAME", "PHASE", "READY"]
    assert row[:6] == [cluster.namespace, "web", "Ready", "1/2", "12.5", "31"]
    assert "http://h:8000" in serve("list", "-o", "wide").out
    assert serve("list", "-o", "name").out == "inferenceservice/web\n"
    (found,) = json.loads(serve("list", "web", "-o", "json").out)
    assert (found["phase"], found["requests"], found["groups"][0]["decision"]) == (
        *("Ready", 12.5),
        "9 in flight",
    )
    assert "Demand: 9 in flight" in serve("why", "web").out
    assert json.loads(serve("why", "web", "-o", "json").out)["groups"][0]["waitsFor"] == (
        "b is starting"
    )
    shown = serve("show", "web").out
    assert "HTTP      http://h:8000" in shown
    (line,) = (line for line in shown.splitlines() if "gRPC ModelInfer" in line)
    assert line.split() == [
        *("gRPC", "ModelInfer", "-", "UNAVAILABLE", "1741", "-", "3.25"),
        *("2026-11-19T15:00:00Z", "a" * 32),
    ]
    assert json.loads(serve("show", "web", "-o", "json").out)["status"]["phase"] == "Ready"


def test_unknown_service_is_explained_with_those_that_there_are(
    serve: Run, cluster: Api, manifest: Path
) -> None:
    space = cluster.namespace
    assert serve("why", "api").err == (
        f"kilonova: InferenceService api does not exist in namespace {space}; there is none: "
        "`kilonova serve list -A` lists all\n"
    )
    serve("-f", manifest, "--no-wait")
    for words in (("show",), ("why",), ("logs",), ("pause",), ("delete",), ("key", "list")):
        done = serve(*words, "api")
        assert (done.code, done.err) == (
            1,
            f"kilonova: InferenceService api does not exist in namespace {space}; there are: web\n",
        )
    assert "InferenceService api does not exist in namespace" in serve("list", "api").err


def test_service_is_paused_scaled_and_deleted(serve: Run, cluster: Api, manifest: Path) -> None:
    serve("-f", manifest, "--no-wait")
    where = f"{cluster.namespace}/web"
    assert serve("pause", "web", "--dry-run").out == f"{where} paused (dry run)\n"
    assert read(cluster)["spec"]["paused"] is False
    assert serve("pause", "web").out == f"{where} paused\n"
    assert read(cluster)["spec"]["paused"] is True
    assert serve("resume", "web").out == f"{where} resumed\n"
    assert read(cluster)["spec"]["paused"] is False
    assert serve("scale", "web", "2").code == 0
    assert read(cluster)["spec"]["servers"][0]["autoscaling"]["minReplicas"] == 2
    assert "at most 3 servers" in serve("scale", "web", "9").err
    assert serve("delete", "web", "--dry-run").out.endswith("(dry run)\n")
    assert read(cluster)
    assert serve("delete", "web").out == f"{where} deleted, with 0 pods\n"
    assert serve("list").err == "no inference services\n"


def test_key_is_printed_once_and_stored_as_a_digest(
    serve: Run, cluster: Api, manifest: Path
) -> None:
    serve("-f", manifest, "--no-wait")
    done = serve("key", "create", "web", "ada")
    key = done.out.strip()
    assert len(key) > 40
    assert "web requires no keys yet" in done.err
    path = f"/api/v1/namespaces/{cluster.namespace}/secrets/web-api-keys"
    _, secret = cluster.access.request("GET", path)
    digest = hashlib.sha256(key.encode()).hexdigest()
    assert b64decode(secret["data"]["ada"]).decode() == f"sha256:{digest}"
    assert key not in json.dumps(secret)
    done = serve("key", "create", "web", "ada")
    assert "ada has a key already: replace it by --rotate" in done.err
    done = serve("key", "create", "web", "ada", "--rotate", "--require")
    assert done.out.strip() not in ("", key)
    assert read(cluster)["spec"]["auth"]["apiKeys"]["secret"] == "web-api-keys"
    assert serve("key", "create", "web", "bob").err == ""
    clients = json.loads(serve("key", "list", "web", "-o", "json").out)
    assert [each["client"] for each in clients] == ["ada", "bob"]
    assert serve("key", "revoke", "web", "ada").out.startswith("the key of ada is revoked")
    assert serve("key", "list", "web").out.split()[3] == "bob"
    assert "ada has no key; there are keys of: bob" in serve("key", "revoke", "web", "ada").err
    assert "use letters, digits" in serve("key", "create", "web", "a b").err


def test_perf_analyzer_is_a_job_against_the_gateway(
    serve: Run, cluster: Api, manifest: Path
) -> None:
    serve("-f", manifest, "--no-wait")
    words = ("bench", "web", "--perf-analyzer", "-m", "add", "-b", "100", "-c", "4", "--dry-run")
    job = yaml.safe_load(serve(*words, "--requests", "50").out)
    (container,) = job["spec"]["template"]["spec"]["containers"]
    address = f"web.{cluster.namespace}.svc.cluster.local:8001"
    assert container["command"] == [
        *("perf_analyzer", "-m", "add", "-i", "grpc", "-u", address, "--async", "-b", "100"),
        *("--concurrency-range", "4", "--request-count", "50"),
    ]
    assert (job["kind"], job["spec"]["backoffLimit"]) == ("Job", 0)
    assert "name a model by --model" in serve("bench", "web", "--perf-analyzer", "--dry-run").err


def test_names_of_services_are_completed(
    kilonova: Kilonova, serve: Run, cluster: Api, manifest: Path
) -> None:
    serve("-f", manifest, "--no-wait")
    flags = ["--kubeconfig", cluster.access.kubeconfig, "-n", cluster.namespace]
    for words in (["why"], ["bench"], ["key", "list"]):
        assert complete_words(kilonova, ["serve", *words, *flags, "w"]) == ["web"]


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["-n", "x", "list"], "put flags behind the subcommand: `kilonova serve list …`"),
        (["--dry-run"], "name what to serve: -f FILE"),
        (["-f", "x.yaml", "--timeout", "soon"], "--timeout soon: write a duration"),
        (["bench"], "name a service, or an address with --url"),
        (["bench", "x", "--url", "http://y"], "the service x and --url are two targets"),
        (["bench", "x", "--dry-run"], "--dry-run is for --perf-analyzer"),
        (["logs", "x", "--group", "a", "--gateway"], "--group and --gateway exclude each other"),
    ],
)
def test_wrong_usage_is_explained(kilonova: Kilonova, words: list[str], problem: str) -> None:
    done = kilonova("serve", *words)
    assert done.code == 2
    assert problem in done.err


def test_without_words_the_help_is_printed(kilonova: Kilonova) -> None:
    done = kilonova("serve")
    assert (done.code, done.err) == (0, "")
    assert "kilonova serve -f values.yaml --release sonic" in done.out


def test_objects_are_printed_without_a_cluster(kilonova: Kilonova, manifest: Path) -> None:
    done = kilonova("serve", "-f", manifest, "-o", "json", "--name", "api")
    (service,) = json.loads(done.out)["items"]
    assert service["metadata"] == {"name": "api", "namespace": "default"}


def test_cluster_without_the_kind_says_how_to_get_it_or_has_config_maps(
    kilonova: Kilonova, tmp_path: Path, manifest: Path
) -> None:
    data = tmp_path / "bare"
    kilonova.detach(data, "--no-demo", "--only", "scheduler")
    for words in (["list"], ["why", "web"], ["-f", str(manifest)]):
        done = kilonova("serve", *words, "--data", data)
        assert done.code == 1
        assert "this cluster does not know InferenceServices: run `kilonova install" in done.err
    labels = {"serving.kilonova.dev/service-config": "true"}
    config = {"metadata": {"name": "web", "labels": labels}, "data": {"service.yaml": SERVICE}}
    access = ServerAccess.from_kubeconfig(data / "kubeconfig", tmp_path / "admin")
    code, body = access.request("POST", "/api/v1/namespaces/default/configmaps", config)
    assert code == 201, body
    assert kilonova("serve", "list", "-o", "name", "--data", data).out == "inferenceservice/web\n"
    assert kilonova("serve", "why", "web", "--data", data).out.startswith("default/web: ")
    done = kilonova("serve", "pause", "web", "--data", data)
    assert (done.code, "they are ConfigMaps here" in done.err) == (1, True)
