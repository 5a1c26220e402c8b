"""`deploy/scheduler` on both API servers: its service account has exactly the permissions it
uses."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from kilonova.cli.install import install_definitions
from tests.conftest import Api
from tests.harness.kubectl import Kubectl
from tests.harness.permissions import Permission, ServiceAccount
from tests.local.apiserver.admission.webhooks.webhook_server import wait_until
from tests.local.embedded_cluster import EVENTS, LEASES, wait_for_condition
from tests.scheduler.harness.embedded_scheduler import GANGS, QUEUES, create_priority_class
from tests.scheduler.process.scheduler_process_cluster import scheduler_test_cluster
from tests.workloads.process.operator_process import component_process, write_token_kubeconfig

MANIFESTS = Path(__file__).parents[3] / "deploy" / "scheduler"
NAMESPACE = "kilonova-system"
ACCOUNT = "kilonova-scheduler"

CAN: list[Permission] = [
    ("get", "", "pods", "team"),
    ("list", "", "pods", ""),
    ("watch", "", "nodes", ""),
    ("watch", "", "namespaces", ""),
    ("create", "", "pods/binding", "team"),
    ("create", "", "pods/eviction", "team"),
    ("patch", "", "pods/status", "team"),
    ("watch", "scheduler.grove.io", "podgangs", ""),
    ("patch", "scheduler.grove.io", "podgangs/status", "team"),
    ("watch", "scheduling.x-k8s.io", "podgroups", ""),
    ("watch", "scheduling.k8s.io", "podgroups", ""),
    ("patch", "scheduling.k8s.io", "podgroups/status", "team"),
    ("watch", "scheduling.kilonova.dev", "queues", ""),
    ("create", "scheduling.kilonova.dev", "queues", ""),
    ("patch", "scheduling.kilonova.dev", "queues/status", ""),
    ("watch", "scheduling.kilonova.dev", "reservations", ""),
    ("patch", "scheduling.kilonova.dev", "reservations/status", "team"),
    ("watch", "policy", "poddisruptionbudgets", ""),
    ("watch", "resource.k8s.io", "resourceslices", ""),
    ("watch", "resource.k8s.io", "deviceclasses", ""),
    ("create", "resource.k8s.io", "resourceclaims", "team"),
    ("patch", "resource.k8s.io", "resourceclaims", "team"),
    ("patch", "resource.k8s.io", "resourceclaims/status", "team"),
    ("patch", "resource.k8s.io", "resourceclaims/binding", "team"),
    ("patch", "", "persistentvolumeclaims", "team"),
    ("patch", "", "persistentvolumes", ""),
    ("watch", "storage.k8s.io", "storageclasses", ""),
    ("watch", "storage.k8s.io", "csidrivers", ""),
    ("watch", "storage.k8s.io", "csinodes", ""),
    ("watch", "storage.k8s.io", "csistoragecapacities", ""),
    ("create", "", "events", "team"),
    ("create", "coordination.k8s.io", "leases", NAMESPACE),
]
CANNOT: list[Permission] = [
    ("create", "", "pods", "team"),
    ("delete", "", "pods", "team"),
    ("patch", "", "pods", "team"),
    ("update", "", "pods/status", "team"),
    ("create", "", "pods/exec", "team"),
    ("patch", "", "nodes", ""),
    ("patch", "", "nodes/status", ""),
    ("delete", "", "nodes", ""),
    ("get", "", "secrets", "team"),
    ("list", "", "secrets", NAMESPACE),
    ("get", "", "configmaps", "team"),
    ("create", "scheduler.grove.io", "podgangs", "team"),
    ("patch", "scheduler.grove.io", "podgangs", "team"),
    ("delete", "scheduler.grove.io", "podgangs", "team"),
    ("patch", "scheduling.x-k8s.io", "podgroups/status", "team"),
    ("patch", "scheduling.k8s.io", "podgroups", "team"),
    ("patch", "scheduling.kilonova.dev", "queues", ""),
    ("delete", "scheduling.kilonova.dev", "queues", ""),
    ("patch", "scheduling.kilonova.dev", "reservations", "team"),
    ("delete", "resource.k8s.io", "resourceclaims", "team"),
    ("create", "", "persistentvolumeclaims", "team"),
    ("delete", "", "persistentvolumeclaims", "team"),
    ("delete", "", "persistentvolumes", ""),
    ("patch", "", "namespaces", ""),
    ("patch", "storage.k8s.io", "storageclasses", ""),
    ("create", "apps", "deployments", "team"),
    ("create", "coordination.k8s.io", "leases", "team"),
    ("create", "rbac.authorization.k8s.io", "roles", "team"),
    ("impersonate", "", "users", ""),
    ("*", "*", "*", ""),
]


@pytest.fixture
def deployed(api: Api, kubectl: Kubectl) -> Iterator[Api]:
    """A server with our CRDs and the manifests applied."""

    async def install() -> None:
        async with api.client() as client:
            await install_definitions(client)

    asyncio.run(install())
    done = kubectl(["apply", "-k", str(MANIFESTS)])
    assert done.code == 0, done.err
    wait_until(lambda: all(account(api).is_allowed(*act) for act in CAN))
    yield api
    done = kubectl(["delete", "-k", str(MANIFESTS), "--ignore-not-found"])
    assert done.code == 0, done.err


def account(api: Api) -> ServiceAccount:
    return ServiceAccount(api, NAMESPACE, ACCOUNT)


def test_service_account_has_no_other_permissions(deployed: Api) -> None:
    table = {**dict.fromkeys(CAN, True), **dict.fromkeys(CANNOT, False)}
    assert {act: account(deployed).is_allowed(*act) for act in table} == table
    for name, may in (("kilonova-scheduler", True), ("somebody-elses", False)):
        lease = ("coordination.k8s.io", "leases", NAMESPACE, name)
        assert account(deployed).is_allowed("patch", *lease) is may


async def test_service_account_can_bind_evict_and_write_status(
    deployed: Api, tmp_path: Path
) -> None:
    kubeconfig = write_token_kubeconfig(
        deployed.access, tmp_path / "account", account(deployed).request_token()
    )
    async with scheduler_test_cluster(deployed, 2) as place:
        priority = f"high-{deployed.namespace}"
        await create_priority_class(place.client, priority, 1000)
        with component_process("scheduler", kubeconfig, tmp_path) as scheduler:
            queue = {"metadata": {"name": f"queue-{deployed.namespace}"}}
            await place.client.create(QUEUES, queue)
            gang = await place.create_gang("g", 2, 8)
            await place.until_placed(*gang)
            await place.create(place.pod("large", 9))

            async def is_reported() -> bool:
                return await place.pod_scheduled_reason("large") == "Unschedulable"

            await wait_for_condition(is_reported)
            await place.create(place.pod("chief", 8, priorityClassName=priority))
            await place.until_placed("chief")
            assert set(await place.pods()) == {"large", "chief"}
            assert await place.client.get(LEASES, ACCOUNT, NAMESPACE)
            assert await place.client.get(GANGS, "g", place.namespace)

            async def reported() -> bool:
                events = (await place.client.list(EVENTS, place.namespace)).items
                return {"Scheduled", "FailedScheduling", "Preempted"} <= {
                    each["reason"] for each in events
                }

            await wait_for_condition(reported)
            code, metrics = scheduler.request("/metrics")
            assert code == 200
            assert 'kilonova_scheduler_bindings_total{result="bound"} 3.0' in metrics
            assert 'kilonova_scheduler_evictions_total{reason="Preempted"} 2.0' in metrics
            assert "kgwe_preemptions_total 2.0" in metrics
            assert "forbidden" not in scheduler.process.log.read_text().lower()


def test_one_of_two_replicas_stays_when_nodes_are_drained() -> None:
    deployment, budget = (
        yaml.safe_load((MANIFESTS / f"{name}.yaml").read_text())
        for name in ("deployment", "budget")
    )
    assert deployment["spec"]["replicas"] == 2
    pod = deployment["spec"]["template"]
    assert pod["spec"]["priorityClassName"] == "system-cluster-critical"
    assert budget["spec"]["minAvailable"] == 1
    wanted = budget["spec"]["selector"]["matchLabels"].items()
    assert wanted <= pod["metadata"]["labels"].items()
