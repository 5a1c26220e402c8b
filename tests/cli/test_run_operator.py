"""`kilonova run operator` on both servers: it begins, it checks sets, it works, it ends."""

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
from tests.local.embedded_cluster import DEFINITIONS, LEASES, PODS, eventually, gone
from tests.workloads.ground import SETS
from tests.workloads.process.operator_process import (
    OperatorProcess,
    forget_webhooks,
    operator_process,
)

LEADS = 'leader_election_master_status{name="kilonova-operator"} 1.0'


@pytest.fixture
async def defined(api: Api) -> Api:
    """A server that has our kinds."""
    async with api.client() as client:
        await install_definitions(client)
    return api


@pytest.fixture
def operator(defined: Api, tmp_path: Path) -> Iterator[OperatorProcess]:
    """An operator outside of the cluster, with webhooks."""
    options = ("--webhook-url", "https://127.0.0.1:0", "--certs", str(tmp_path / "certs"))
    where = ("--namespace", defined.namespace)
    try:
        with operator_process(defined.access.kubeconfig, tmp_path, *options, *where) as running:
            yield running
    finally:
        forget_webhooks(defined.access)


def set_body(name: str, replicas: int = 1) -> Any:
    """A set as people write it: much is left out."""
    container = {"name": "main", "image": "img"}
    spec = {"roleName": "worker", "replicas": 2, "podSpec": {"containers": [container]}}
    template = {"cliques": [{"name": "worker", "spec": spec}]}
    return {"metadata": {"name": name}, "spec": {"replicas": replicas, "template": template}}


async def test_a_set_is_completed_checked_and_made_into_pods(
    operator: OperatorProcess, defined: Api
) -> None:
    namespace = defined.namespace
    async with defined.client() as client:

        async def is_asked() -> bool:
            tried = await client.create(SETS, set_body("sys"), namespace, dry_run=True)
            return "terminationDelay" in tried["spec"]["template"]

        await eventually(is_asked, within=20)  # an API server hears of webhooks a moment later
        made = await client.create(SETS, set_body("sys"), namespace)
        assert made["spec"]["template"]["terminationDelay"] == "4h"
        assert made["spec"]["template"]["cliques"][0]["spec"]["minAvailable"] == 2

        async def two_pods() -> bool:
            return len((await client.list(PODS, namespace)).items) == 2

        await eventually(two_pods, within=20)
        wrong = set_body("wrong")
        wrong["spec"]["template"]["cliques"][0]["spec"]["minAvailable"] = 3
        with pytest.raises(ApiStatusError, match="minAvailable") as refusal:
            await client.create(SETS, wrong, namespace)
        assert refusal.value.code == 422
        await client.delete(SETS, "sys", namespace)

        await gone(client, SETS, "sys", namespace)
    code, metrics = operator.ask("/metrics")
    assert code == 200
    assert 'controller_runtime_webhook_requests_total{code="422"' in metrics
    assert "kilonova_gangs" in metrics
    assert LEADS in metrics


async def test_it_gives_its_lease_back_and_ends_in_good_order(
    operator: OperatorProcess, defined: Api
) -> None:
    async with defined.client() as client:
        lease = await client.get(LEASES, "kilonova-operator", defined.namespace)
        assert lease["spec"]["holderIdentity"]
        kill(operator.process.pid, signal.SIGTERM)
        assert await asyncio.to_thread(operator.process.wait) == 0
        lease = await client.get(LEASES, "kilonova-operator", defined.namespace)
        assert not lease["spec"].get("holderIdentity")
    # A genuine server ends the first watches of a kind that it has just been taught.
    own = ("kilonova.kube.health", "kilonova.kube.reflector")
    lines = [each for each in operator.lines() if each["logger"] not in own]
    assert {each["level"] for each in lines} == {"info"}, lines


async def test_of_two_copies_one_works_and_the_other_takes_over(
    defined: Api, tmp_path: Path
) -> None:
    kubeconfig = defined.access.kubeconfig
    options = ("--no-webhooks", "--namespace", defined.namespace)
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
        'leader_election_master_status{name="kilonova-operator"} 1.0' in operator.ask("/metrics")[1]
    )


def test_what_is_missing_is_said(kilonova: Kilonova, defined: Api, tmp_path: Path) -> None:
    words = ("run", "operator", "--kubeconfig", defined.access.kubeconfig, "--health-port", "0")
    done = kilonova(*words, "--namespace", "nowhere", "--webhook-url", "https://127.0.0.1:0")
    assert done.code == 1
    assert "there is no namespace nowhere for the Lease and the certificates" in done.err
    done = kilonova(*words, "--namespace", defined.namespace)
    assert done.code == 1
    assert f"no Service {defined.namespace}/kilonova-operator for the webhooks" in done.err
    asyncio.run(_forget_compute_domains(defined))
    done = kilonova(*words, "--no-webhooks", "--no-leader-elect", "--mnnvl")
    assert done.code == 7
    assert "multi-node NVLink needs computedomains.resource.nvidia.com" in done.err


async def _forget_compute_domains(api: Api) -> None:
    """Other tests on this server may have brought the kind."""
    name = "computedomains.resource.nvidia.com"
    async with api.client() as client:
        with suppress(NotFound):
            await client.delete(DEFINITIONS, name)
        await gone(client, DEFINITIONS, name)


def test_a_cluster_without_the_kinds_is_told_of_install(kilonova: Kilonova, tmp_path: Path) -> None:
    data = tmp_path / "data"
    assert kilonova.detach(data, "--no-demo", "--no-operator").code == 0
    done = kilonova("run", "operator", "--kubeconfig", data / "kubeconfig", "--no-webhooks")
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
def test_bad_words_are_refused(
    kilonova: Kilonova, words: tuple[str, ...], code: int, problem: str
) -> None:
    done = kilonova("run", "operator", *words)
    assert done.code == code
    assert done.err.startswith(f"kilonova: {problem}")
    assert "Traceback" not in done.err


def test_a_file_of_grove_is_taken_and_what_is_ignored_is_logged(
    kilonova: Kilonova, tmp_path: Path
) -> None:
    head = {"apiVersion": "operator.config.grove.io/v1alpha1", "kind": "OperatorConfiguration"}
    config = tmp_path / "config.yaml"
    config.write_text(json.dumps({**head, "debugging": {"enableProfiling": True}}))
    done = kilonova("run", "operator", "--config", config, "--kubeconfig", "/nowhere")
    first, *_ = done.err.splitlines()
    assert json.loads(first)["names"] == ["debugging"]
