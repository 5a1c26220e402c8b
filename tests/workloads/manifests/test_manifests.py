"""The manifests have the shapes that the scenarios expect, and API servers accept them."""

import asyncio
from typing import Any

import pytest

from kilonova.cli.install import install_definitions
from kilonova.workloads.admission.defaults import apply_defaults
from kilonova.workloads.admission.validation.podcliqueset import ValidationContext, validate_create
from kilonova.workloads.settings import OperatorSettings
from tests.conftest import Api
from tests.harness.kubectl import Kubectl
from tests.workloads.manifests.load import FOLDER, MANIFEST_NAMES, load_manifest, load_set

SETS = [
    name for name in MANIFEST_NAMES if name != "topology" and not name.startswith("definitions/")
]

ONE_GANG = "pc-a:2/2 sg-x:2/2[pc-b:1/1 pc-c:3/3]"
TWO_GANGS = "pc-a:2/1 sg-x:2/1[pc-b:1/1 pc-c:3/1]"
SHAPES = {
    "workload1": ONE_GANG,
    "workload1-gt": ONE_GANG,
    "workload2": TWO_GANGS,
    "workload2-gt": TWO_GANGS,
    "workload3": ONE_GANG,
    "workload4": TWO_GANGS,
    "workload5": ONE_GANG,
    "workload6": TWO_GANGS,
    "workload5-gt": "pc-a:2/1 sg-x:2/1[pc-b:1/1 pc-c:3/3]",
    "workload-ondelete": "pc-a:2/1 sg-x:2/2[pc-b:1/1 pc-c:3/3]",
    "workload-resource-sharing": "worker-a:1/1 sga:2/2[worker-b:1/1]",
    "scale-full": "expert-worker:2/2",
    "upgrade": "bootstrap:1/1 worker:1/1",
    "tas-disaggregated": "router:2/2 decoder:2/1[dleader:1/1 dworker:1/1] "
    "prefill:2/1[pleader:1/1 pworker:1/1]",
    "samples/simple3-explicit-startup-order": "router:1/1 pool:3/2[leader:1/1 worker:2/2]",
}


def get_shape(set_: Any) -> str:
    """Cliques and groups in a line: name, replicas and how many there must be."""
    template = apply_defaults(set_)["spec"]["template"]
    cliques = {
        each["name"]: f"{each['name']}:{each['spec']['replicas']}/{each['spec']['minAvailable']}"
        for each in template["cliques"]
    }
    groups: list[str] = []
    for each in template.get("podCliqueScalingGroups", []):
        members = " ".join(cliques.pop(name) for name in each["cliqueNames"])
        count = f"{each.get('replicas', 1)}/{each.get('minAvailable', 1)}"
        groups.append(f"{each['name']}:{count}[{members}]")
    return " ".join([*cliques.values(), *groups])


@pytest.mark.parametrize(("name", "expected"), SHAPES.items(), ids=SHAPES)
def test_manifests_have_the_expected_shapes(name: str, expected: str) -> None:
    assert get_shape(load_set(name)) == expected


def test_scale_manifests_differ_in_their_replicas_only() -> None:
    scales = [load_set(name) for name in MANIFEST_NAMES if name.startswith("scale-")]
    assert {each["spec"].pop("replicas") for each in scales} == {0, 5, 25, 250, 500}
    assert all(each["spec"] == scales[0]["spec"] for each in scales)


@pytest.mark.parametrize("name", SETS)
def test_manifests_pass_admission(name: str) -> None:
    (topology,) = load_manifest("topology")
    levels = tuple(each["domain"] for each in topology["spec"]["levels"])
    context = ValidationContext(
        OperatorSettings(mnnvl=True, backends=("kai-scheduler",)),
        {topology["metadata"]["name"]: levels},
    )
    assert validate_create(apply_defaults(load_set(name)), context).errors == ()


def test_servers_accept_the_manifests(api: Api, kubectl: Kubectl) -> None:
    asyncio.run(_install(api))
    words = ["apply", "--server-side", "--dry-run=server", "--recursive", "-f", str(FOLDER)]
    done = kubectl(words, namespace=api.namespace)
    assert done.code == 0, done.err
    assert len(done.out.splitlines()) == sum(len(load_manifest(name)) for name in MANIFEST_NAMES)


async def _install(api: Api) -> None:
    async with api.client() as client:
        await install_definitions(client)
