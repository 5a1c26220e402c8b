"""The examples of other people's workloads do what their comments say."""

import yaml

from kilonova.cli.drafts import Drafting
from kilonova.cli.manifests import Manifest, read_manifests
from kilonova.kube.resource import plain
from kilonova.scheduler.capturing import capture
from kilonova.scheduler.decisions import Decisions
from kilonova.scheduler.picture import Picture
from kilonova.scheduler.reading.podgroups import ref_of
from kilonova.scheduler.whatif import gangs_of_groups, what_if
from tests.examples.staging import FLEET, FOLDER
from tests.local.embedded_cluster import DEFINITIONS, eventually, virtual_time
from tests.scheduler.podgroups import COSCHEDULED
from tests.scheduler.scheduling import is_served, scheduling

pytestmark = virtual_time

JOBS = plain("batch", "v1", "jobs", "Job", True)


def planned(picture: Picture, manifests: list[Manifest]) -> Decisions:
    drafting = Drafting("2026-05-01T00:00:00Z", {}, {})
    drafting.take(manifests)
    drafts = drafting.drafts
    gangs = gangs_of_groups(drafts.groups, drafts.pods, drafts.gangs)
    return what_if(picture, drafts.pods, gangs, set(map(ref_of, drafts.groups)))


async def test_a_job_with_a_coscheduling_group_runs_as_it_is() -> None:
    async with scheduling(FLEET) as (cluster, _):
        client = cluster.client("tester")
        definition = yaml.safe_load((FOLDER / "podgroup-crd.yaml").read_text())
        await client.create(DEFINITIONS, definition)
        await eventually(lambda: is_served(client, COSCHEDULED))
        for body in yaml.safe_load_all((FOLDER / "coscheduling.yaml").read_text()):
            resource = COSCHEDULED if body["kind"] == "PodGroup" else JOBS
            await client.create(resource, body, "default")

        async def complete() -> bool:
            job = await client.get(JOBS, "train", "default")
            return job.get("status", {}).get("succeeded") == 4

        await eventually(complete, within=120)


async def test_a_job_with_a_group_of_kubernetes_is_planned_within_one_rack() -> None:
    async with scheduling(FLEET) as (cluster, _):
        picture = (await capture(cluster.client("tester"))).picture
        manifests = read_manifests([FOLDER / "podgroup.yaml"])
        (placed,) = planned(picture, manifests).placed
        racks = {node.name: node.labels["kilonova.dev/rack"] for node in picture.nodes}
        assert placed.gang == "podgroup.scheduling.k8s.io/default/near"
        assert len({racks[pod.node] for pod in placed.pods}) == 1
        alone = [each for each in manifests if each.kind == "Job"]
        refused = planned(picture, alone).refused
        assert {each.reason for each in refused} == {"NoPodGroup"}
