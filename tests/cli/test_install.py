"""`kilonova install`: CRDs are applied and served, and failures are explained."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from kilonova.api.crds import load_definitions
from kilonova.cli.install import DEFINITIONS, install_definitions
from kilonova.component.failure import CommandFailed
from kilonova.kube import NotFound
from tests.cli.command import Kilonova
from tests.conftest import Api
from tests.harness.access import ServerAccess
from tests.harness.control_plane import ControlPlane
from tests.local.embedded_cluster import definition, run_cluster

SHORT_NAMES = {"pcs", "pclq", "pcsg", "ct", "pg", "kq", "rsv"}
NAMES = [each["metadata"]["name"] for each in load_definitions()]


@pytest.fixture(scope="module")
def bare_kubernetes(
    control_plane_binaries: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    """A kube-apiserver without any CRDs."""
    with ControlPlane.start(tmp_path_factory.mktemp("bare")) as plane:
        yield plane


def short_names(access: ServerAccess) -> set[str]:
    """Short names in discovery, where established kinds appear with a delay."""
    groups = ("grove.io", "scheduler.grove.io", "scheduling.kilonova.dev")
    answers = [access.request("GET", f"/apis/{group}/v1alpha1") for group in groups]
    found = [each for code, answer in answers if code == 200 for each in answer["resources"]]
    return {short for each in found for short in each.get("shortNames", [])}


def lines(outcome: str, note: str = "") -> str:
    return "".join(f"{name} {outcome}{note}\n" for name in NAMES)


def test_all_kinds_are_served_when_install_returns(
    kilonova: Kilonova, bare_kubernetes: ControlPlane
):
    access = bare_kubernetes.access
    tried = kilonova("install", "--kubeconfig", access.kubeconfig, "--dry-run")
    assert (tried.code, tried.out) == (0, lines("created", " (dry run)"))
    assert access.request("GET", "/apis/grove.io/v1alpha1")[0] == 404

    done = kilonova("install", "--kubeconfig", access.kubeconfig)
    assert (done.code, done.out, done.err) == (0, lines("created"), "")
    bare_kubernetes.processes[0].wait_until(lambda: short_names(access) == SHORT_NAMES)

    again = kilonova("install", "--kubeconfig", access.kubeconfig)
    assert again.out == lines("unchanged")


def test_changed_definition_is_restored(kilonova: Kilonova, api: Api):
    words = ("install", "--kubeconfig", api.access.kubeconfig)
    assert kilonova(*words).code == 0
    path = f"/apis/{DEFINITIONS.group}/v1/{DEFINITIONS.plural}/podgangs.scheduler.grove.io"
    _, live = api.access.request("GET", path)
    live["spec"]["names"]["shortNames"] = ["gang"]
    assert api.access.request("PUT", path, live)[0] == 200

    would = kilonova(*words, "--dry-run")
    assert "podgangs.scheduler.grove.io changed (dry run)" in would.out
    assert api.access.request("GET", path)[1]["spec"]["names"]["shortNames"] == ["gang"]
    done = kilonova(*words)
    assert "podgangs.scheduler.grove.io changed" in done.out.splitlines()
    assert api.access.request("GET", path)[1]["spec"]["names"]["shortNames"] == ["pg"]


def test_missing_permission_is_named(kilonova: Kilonova, api: Api, tmp_path: Path):
    config = yaml.safe_load(api.access.kubeconfig.read_text())
    config["users"][0]["user"]["as"] = "jane"
    kubeconfig = tmp_path / "jane"
    kubeconfig.write_text(yaml.safe_dump(config))
    done = kilonova("install", "--kubeconfig", kubeconfig)
    assert (done.code, done.out) == (1, "")
    assert 'User "jane" cannot get resource "customresourcedefinitions"' in done.err
    assert "get, create and patch customresourcedefinitions.apiextensions.k8s.io" in done.err
    assert len(done.err.splitlines()) == 1


def test_install_without_a_kubeconfig_names_the_flag(kilonova: Kilonova):
    done = kilonova("install")
    assert done.code == 1
    assert "no cluster to install on" in done.err
    assert "set KUBECONFIG" in done.err


def test_missing_kubeconfig_is_named(kilonova: Kilonova, tmp_path: Path):
    done = kilonova("install", "--kubeconfig", tmp_path / "absent")
    assert (done.code, len(done.err.splitlines())) == (1, 1)
    assert str(tmp_path / "absent") in done.err


def test_unknown_context_is_rejected_by_name(kilonova: Kilonova, api: Api):
    done = kilonova("install", "--kubeconfig", api.access.kubeconfig, "--context", "moon")
    assert done.code == 1
    assert "moon" in done.err


def test_unreachable_cluster_is_reported(kilonova: Kilonova, tmp_path: Path):
    config = {
        "clusters": [{"name": "a", "cluster": {"server": "http://127.0.0.1:1"}}],
        "users": [{"name": "a", "user": {}}],
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        "current-context": "a",
    }
    kubeconfig = tmp_path / "gone"
    kubeconfig.write_text(yaml.safe_dump(config))
    done = kilonova("install", "--kubeconfig", kubeconfig)
    assert done.code == 1
    assert "the cluster does not answer" in done.err
    assert len(done.err.splitlines()) == 1


def test_definitions_are_printed_as_yaml(kilonova: Kilonova):
    done = kilonova("install", "-o", "yaml")
    assert done.code == 0
    # The loader in C: 2 MB take the other one ten seconds and more.
    assert list(yaml.load_all(done.out, Loader=yaml.CSafeLoader)) == load_definitions()


def test_definitions_are_printed_as_json(kilonova: Kilonova):
    done = kilonova("install", "-o", "json", "--components", "scheduler")
    assert done.code == 0
    listed = json.loads(done.out)
    assert (listed["apiVersion"], listed["kind"]) == ("v1", "List")
    names = {each["metadata"]["name"] for each in listed["items"]}
    assert "queues.scheduling.kilonova.dev" in names
    assert "podcliquesets.grove.io" not in names


@pytest.mark.parametrize(
    ("components", "message"),
    [
        (
            "console",
            "--components console: it needs no CRDs: leave it out, or choose",
        ),
        ("schedular", "--components schedular: there is no such component: choose from operator"),
        (" , ", "--components names no component: choose from operator"),
    ],
)
def test_invalid_components_say_what_is_valid(kilonova: Kilonova, components: str, message: str):
    done = kilonova("install", "-o", "yaml", "--components", components)
    assert done.code == 2
    assert message in done.err


@pytest.mark.looptime
async def test_install_works_on_the_embedded_cluster():
    async with run_cluster() as cluster, cluster.client("test") as client:
        tried = await install_definitions(client, dry_run=True)
        assert {each.outcome for each in tried} == {"created"}
        with pytest.raises(NotFound):
            await client.get(DEFINITIONS, NAMES[0])
        for outcome in ("created", "unchanged"):
            installed = await install_definitions(client)
            assert [(each.name, each.outcome) for each in installed] == [
                (name, outcome) for name in NAMES
            ]


@pytest.mark.looptime
async def test_name_conflict_with_another_kind_is_reported():
    async with run_cluster() as cluster, cluster.client("test") as client:
        other = definition("grove.io", "Clique", "cliques", shortNames=["pclq"])
        await client.create(DEFINITIONS, other)
        with pytest.raises(CommandFailed, match=r"podcliques\.grove\.io cannot be served: .*pclq"):
            await install_definitions(client)


@pytest.mark.looptime
async def test_install_does_not_wait_for_a_definition_being_deleted():
    async with run_cluster() as cluster, cluster.client("test") as client:
        await install_definitions(client)
        held = {"metadata": {"finalizers": ["example.com/held"]}}
        await client.patch(DEFINITIONS, NAMES[0], held)
        await client.delete(DEFINITIONS, NAMES[0])
        with pytest.raises(CommandFailed, match=f"{NAMES[0]} is being deleted"):
            await install_definitions(client)
