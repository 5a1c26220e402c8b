"""Examples with PodGroups of other projects do what their comments say."""

import yaml

from kilonova.cli.plan.manifest_expansion import ManifestExpander
from kilonova.cli.plan.manifests import Manifest, read_manifests
from kilonova.kube.client.resource import unstructured_resource
from kilonova.scheduler.convert.gangs.pod_groups import pod_group_ref
from kilonova.scheduler.library.decisions import SchedulingDecisions
from kilonova.scheduler.library.snapshots.capture import capture_snapshot
from kilonova.scheduler.library.snapshots.snapshot import ClusterSnapshot
from kilonova.scheduler.library.what_if import convert_pod_groups, what_if
from tests.examples.example_cluster import EXAMPLES, FLEET
from tests.local.embedded_cluster import DEFINITIONS, virtual_time, wait_for_condition
from tests.scheduler.harness.embedded_scheduler import is_served, scheduled_cluster
from tests.scheduler.harness.pod_groups import COSCHEDULING_POD_GROUPS

pytestmark = virtual_time

JOBS = unstructured_resource("batch", "v1", "jobs", "Job", True)


def plan(snapshot: ClusterSnapshot, manifests: list[Manifest]) -> SchedulingDecisions:
    expander = ManifestExpander("2026-05-01T00:00:00Z", {}, {})
    expander.expand(manifests)
    expanded = expander.objects
    gangs = convert_pod_groups(expanded.groups, expanded.pods, expanded.gangs)
    return what_if(snapshot, expanded.pods, gangs, set(map(pod_group_ref, expanded.groups)))


async def test_job_with_a_coscheduling_pod_group_runs_unchanged() -> None:
    async with scheduled_cluster(FLEET) as (cluster, _):
        client = cluster.client("tester")
        definition = yaml.safe_load((EXAMPLES / "podgroup-crd.yaml").read_text())
        await client.create(DEFINITIONS, definition)
        await wait_for_condition(lambda: is_served(client, COSCHEDULING_POD_GROUPS))
        for body in yaml.safe_load_all((EXAMPLES / "coscheduling.yaml").read_text()):
            resource = COSCHEDULING_POD_GROUPS if body["kind"] == "PodGroup" else JOBS
            await client.create(resource, body, "default")

        async def is_complete() -> bool:
            job = await client.get(JOBS, "train", "default")
            return job.get("status", {}).get("succeeded") == 4

        await wait_for_condition(is_complete, within=120)


async def test_job_with_a_kubernetes_pod_group_is_planned_in_one_rack() -> None:
    async with scheduled_cluster(FLEET) as (cluster, _):
        snapshot = (await capture_snapshot(cluster.client("tester"))).cluster_snapshot
        manifests = read_manifests([EXAMPLES / "podgroup.yaml"])
        (placed,) = plan(snapshot, manifests).placed
        racks = {node.name: node.labels["kilonova.dev/rack"] for node in snapshot.nodes}
        assert placed.gang == "podgroup.scheduling.k8s.io/default/near"
        assert len({racks[pod.node] for pod in placed.pods}) == 1
        without_group = [each for each in manifests if each.kind == "Job"]
        rejected = plan(snapshot, without_group).rejected
        assert {each.reason for each in rejected} == {"PodGroupNotFound"}
