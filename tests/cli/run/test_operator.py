"""`kilonova run operator` on both servers: start, admission, reconciliation, shutdown."""

import asyncio
import json
import signal
from collections.abc import Iterator
from contextlib import suppress
from os import kill
from pathlib import Path
from typing import Any

import pytest

from kilonova.cli.install import install_definitions
from kilonova.kube import ApiStatusError, NotFound
from tests.cli.command import Kilonova
from tests.conftest import Api
from tests.local.embedded_cluster import DEFINITIONS, LEASES, PODS, wait_deleted, wait_for_condition
from tests.workloads.process.operator_process import (
    OperatorProcess,
    delete_webhook_configurations,
    operator_process,
)
from tests.workloads.workload_cluster import SETS

LEADS = 'leader_election_master_status{name="kilonova-operator"} 1.0'


@pytest.fixture
async def api_with_crds(api: Api) -> Api:
    """A server with our CRDs."""
    async with api.client() as client:
        await install_definitions(client)
    return api


@pytest.fixture
def operator(api_with_crds: Api, tmp_path: Path) -> Iterator[OperatorProcess]:
    """An operator outside of the cluster, with webhooks."""
    options = ("--webhook-url", "https://127.0.0.1:0", "--certs", str(tmp_path / "certs"))
    where = ("--namespace", api_with_crds.namespace)
    try:
        with operator_process(
            api_with_crds.access.kubeconfig, tmp_path, *options, *where
        ) as running:
            yield running
    finally:
        delete_webhook_configurations(api_with_crds.access)


def set_body(name: str, replicas: int = 1) -> Any:
    """A PodCliqueSet with only required fields."""
    container = {"name": "main", "image": "img"}
    spec = {"roleName": "worker", "replicas": 2, "podSpec": {"containers": [container]}}
    template = {"cliques": [{"name": "worker", "spec": spec}]}
    return {"metadata": {"name": name}, "spec": {"replicas": replicas, "template": template}}


async def test_set_is_defaulted_validated_and_reconciled(
    operator: OperatorProcess, api_with_crds: Api
) -> None:
    namespace = api_with_crds.namespace
    async with api_with_crds.client() as client:

        async def is_webhook_called() -> bool:
            tried = await client.create(SETS, set_body("sys"), namespace, dry_run=True)
            return "terminationDelay" in tried["spec"]["template"]

        await wait_for_condition(
            is_webhook_called, within=20
        )  # the API server observes webhook configurations with a delay
        made = await client.create(SETS, set_body("sys"), namespace)
        assert made["spec"]["template"]["terminationDelay"] == "4h"
        assert made["spec"]["template"]["cliques"][0]["spec"]["minAvailable"] == 2

        async def two_pods() -> bool:
            return len((await client.list(PODS, namespace)).items) == 2

        await wait_for_condition(two_pods, within=20)
        wrong = set_body("wrong")
        wrong["spec"]["template"]["cliques"][0]["spec"]["minAvailable"] = 3
        with pytest.raises(ApiStatusError, match="minAvailable") as rejection:
            await client.create(SETS, wrong, namespace)
        assert rejection.value.code == 422
        await client.delete(SETS, "sys", namespace)

        await wait_deleted(client, SETS, "sys", namespace)
    code, metrics = operator.request("/metrics")
    assert code == 200
    assert 'controller_runtime_webhook_requests_total{code="422"' in metrics
    assert "kilonova_gangs" in metrics
    assert LEADS in metrics


async def test_operator_releases_its_lease_and_stops_gracefully(
    operator: OperatorProcess, api_with_crds: Api
) -> None:
    async with api_with_crds.client() as client:
        lease = await client.get(LEASES, "kilonova-operator", api_with_crds.namespace)
        assert lease["spec"]["holderIdentity"]
        kill(operator.process.pid, signal.SIGTERM)
        assert await asyncio.to_thread(operator.process.wait) == 0
        lease = await client.get(LEASES, "kilonova-operator", api_with_crds.namespace)
        assert not lease["spec"].get("holderIdentity")
    # kube-apiserver closes the first watches of a kind whose CRD was just created.
    own = ("kilonova.kube.serving.health", "kilonova.kube.informers.reflector")
    lines = [each for each in operator.read_log() if each["logger"] not in own]
    assert {each["level"] for each in lines} == {"info"}, lines


async def test_second_replica_takes_over_when_the_leader_stops(
    api_with_crds: Api, tmp_path: Path
) -> None:
    kubeconfig = api_with_crds.access.kubeconfig
    options = ("--no-webhooks", "--namespace", api_with_crds.namespace)
    with (
        operator_process(kubeconfig, tmp_path, *options, name="first") as first,
        operator_process(kubeconfig, tmp_path, *options, name="second") as second,
    ):
        assert _leads(first)
        assert not _leads(second)
        first.process.stop(grace=20)
        await asyncio.to_thread(second.process.wait_until, lambda: _leads(second))


def _leads(operator: OperatorProcess) -> bool:
    return (
        'leader_election_master_status{name="kilonova-operator"} 1.0'
        in operator.request("/metrics")[1]
    )


def test_missing_prerequisites_are_reported(
    kilonova: Kilonova, api_with_crds: Api, tmp_path: Path
) -> None:
    words = (
        "run",
        "operator",
        "--kubeconfig",
        api_with_crds.access.kubeconfig,
        "--health-port",
        "0",
    )
    done = kilonova(*words, "--namespace", "nowhere", "--webhook-url", "https://127.0.0.1:0")
    assert done.code == 1
    assert "namespace nowhere for the Lease and the certificates does not exist" in done.err
    done = kilonova(*words, "--namespace", api_with_crds.namespace)
    assert done.code == 1
    assert (
        f"Service {api_with_crds.namespace}/kilonova-operator for the webhooks does not exist"
        in done.err
    )
    asyncio.run(_delete_compute_domain_definition(api_with_crds))
    done = kilonova(*words, "--no-webhooks", "--no-leader-elect", "--mnnvl")
    assert done.code == 7
    assert "multi-node NVLink requires computedomains.resource.nvidia.com" in done.err


async def _delete_compute_domain_definition(api: Api) -> None:
    """Other tests on this server may have installed the CRD."""
    name = "computedomains.resource.nvidia.com"
    async with api.client() as client:
        with suppress(NotFound):
            await client.delete(DEFINITIONS, name)
        await wait_deleted(client, DEFINITIONS, name)


def test_missing_kinds_suggest_kilonova_install(kilonova: Kilonova, tmp_path: Path) -> None:
    data = tmp_path / "data"
    # Serving, too, installs the kind PodCliqueSet.
    assert kilonova.detach(data, "--no-demo", "--no-operator", "--no-serving").code == 0
    words = ("--kubeconfig", data / "kubeconfig", "--no-webhooks", "--health-port", "0")
    done = kilonova("run", "operator", *words)
    assert done.code == 1
    assert "podcliquesets.grove.io" in done.err
    assert done.err.rstrip().endswith("run `kilonova install`")


@pytest.mark.parametrize(
    ("words", "code", "problem"),
    [
        (("--kubeconfig", "/nowhere"), 1, "no cluster to work on: /nowhere"),
        (("--webhook-service", "x"), 2, '--webhook-service "x": write it as NAMESPACE/NAME'),
        (("--webhook-url", "http://x"), 2, 'webhook URL "http://x": must be https'),
        (("--config", "/nowhere.yaml"), 1, "/nowhere.yaml: cannot be read: No such file"),
    ],
)
def test_invalid_flags_are_rejected(
    kilonova: Kilonova, words: tuple[str, ...], code: int, problem: str
) -> None:
    done = kilonova("run", "operator", *words)
    assert done.code == code
    assert done.err.startswith(f"kilonova: {problem}")
    assert "Traceback" not in done.err


def test_ignored_fields_of_a_grove_file_are_logged(kilonova: Kilonova, tmp_path: Path) -> None:
    head = {"apiVersion": "operator.config.grove.io/v1alpha1", "kind": "OperatorConfiguration"}
    config = tmp_path / "config.yaml"
    config.write_text(json.dumps({**head, "debugging": {"enableProfiling": True}}))
    done = kilonova("run", "operator", "--config", config, "--kubeconfig", "/nowhere")
    first, *_ = done.err.splitlines()
    assert json.loads(first)["names"] == ["debugging"]
