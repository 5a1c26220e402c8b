"""`kilonova install`: the definitions reach a cluster, and what is in the way is named."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from kilonova.api.crds import definitions
from kilonova.cli.failure import CommandFailed
from kilonova.cli.install import DEFINITIONS, install_definitions
from kilonova.kube import NotFound
from tests.cli.command import Kilonova
from tests.conftest import Api
from tests.harness.access import Access
from tests.harness.controlplane import HOW_TO_GET, ControlPlane, binaries
from tests.local.embedded_cluster import definition, running

SHORT_NAMES = {"pcs", "pclq", "pcsg", "ct", "pg", "kq", "rsv"}
NAMES = [each["metadata"]["name"] for each in definitions()]


@pytest.fixture(scope="module")
def bare_kubernetes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A genuine API server that nobody has installed anything on."""
    if binaries() is None:
        pytest.skip(HOW_TO_GET)
    with ControlPlane.start(tmp_path_factory.mktemp("bare")) as plane:
        yield plane


def short_names(access: Access) -> set[str]:
    """What discovery lists; established kinds come into it a moment later."""
    groups = ("grove.io", "scheduler.grove.io", "scheduling.kilonova.dev")
    answers = [access.ask("GET", f"/apis/{group}/v1alpha1") for group in groups]
    found = [each for code, answer in answers if code == 200 for each in answer["resources"]]
    return {short for each in found for short in each.get("shortNames", [])}


def lines(outcome: str, note: str = "") -> str:
    return "".join(f"{name} {outcome}{note}\n" for name in NAMES)


def test_all_kinds_are_served_when_it_returns(kilonova: Kilonova, bare_kubernetes: ControlPlane):
    access = bare_kubernetes.access
    tried = kilonova("install", "--kubeconfig", access.kubeconfig, "--dry-run")
    assert (tried.code, tried.out) == (0, lines("created", " (dry run)"))
    assert access.ask("GET", "/apis/grove.io/v1alpha1")[0] == 404

    done = kilonova("install", "--kubeconfig", access.kubeconfig)
    assert (done.code, done.out, done.err) == (0, lines("created"), "")
    bare_kubernetes.processes[0].wait_until(lambda: short_names(access) == SHORT_NAMES)

    again = kilonova("install", "--kubeconfig", access.kubeconfig)
    assert again.out == lines("unchanged")


def test_what_another_changed_is_put_right(kilonova: Kilonova, api: Api):
    words = ("install", "--kubeconfig", api.access.kubeconfig)
    assert kilonova(*words).code == 0
    path = f"/apis/{DEFINITIONS.group}/v1/{DEFINITIONS.plural}/podgangs.scheduler.grove.io"
    _, live = api.access.ask("GET", path)
    live["spec"]["names"]["shortNames"] = ["gang"]
    assert api.access.ask("PUT", path, live)[0] == 200

    would = kilonova(*words, "--dry-run")
    assert "podgangs.scheduler.grove.io changed (dry run)" in would.out
    assert api.access.ask("GET", path)[1]["spec"]["names"]["shortNames"] == ["gang"]
    done = kilonova(*words)
    assert "podgangs.scheduler.grove.io changed" in done.out.splitlines()
    assert api.access.ask("GET", path)[1]["spec"]["names"]["shortNames"] == ["pg"]


def test_the_missing_right_is_named(kilonova: Kilonova, api: Api, tmp_path: Path):
    config = yaml.safe_load(api.access.kubeconfig.read_text())
    config["users"][0]["user"]["as"] = "jane"
    kubeconfig = tmp_path / "jane"
    kubeconfig.write_text(yaml.safe_dump(config))
    done = kilonova("install", "--kubeconfig", kubeconfig)
    assert (done.code, done.out) == (1, "")
    assert 'User "jane" cannot get resource "customresourcedefinitions"' in done.err
    assert "get, create and patch customresourcedefinitions.apiextensions.k8s.io" in done.err
    assert len(done.err.splitlines()) == 1


def test_without_a_kubeconfig_it_says_what_to_name(kilonova: Kilonova):
    done = kilonova("install")
    assert done.code == 1
    assert "no cluster to install on" in done.err
    assert "set KUBECONFIG" in done.err


def test_a_kubeconfig_that_is_not_there_is_named(kilonova: Kilonova, tmp_path: Path):
    done = kilonova("install", "--kubeconfig", tmp_path / "absent")
    assert (done.code, len(done.err.splitlines())) == (1, 1)
    assert str(tmp_path / "absent") in done.err


def test_an_unknown_context_is_refused_by_name(kilonova: Kilonova, api: Api):
    done = kilonova("install", "--kubeconfig", api.access.kubeconfig, "--context", "moon")
    assert done.code == 1
    assert "moon" in done.err


def test_a_cluster_that_does_not_answer_is_said(kilonova: Kilonova, tmp_path: Path):
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


def test_the_definitions_can_be_printed_for_others_to_apply(kilonova: Kilonova):
    done = kilonova("install", "-o", "yaml")
    assert done.code == 0
    assert list(yaml.safe_load_all(done.out)) == definitions()


@pytest.mark.looptime
async def test_the_embedded_cluster_takes_them_too():
    async with running() as cluster, cluster.client("test") as client:
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
async def test_a_name_that_another_kind_has_is_told():
    async with running() as cluster, cluster.client("test") as client:
        other = definition("grove.io", "Clique", "cliques", shortNames=["pclq"])
        await client.create(DEFINITIONS, other)
        with pytest.raises(CommandFailed, match=r"podcliques\.grove\.io cannot be served .*pclq"):
            await install_definitions(client)


@pytest.mark.looptime
async def test_a_definition_that_is_being_deleted_is_not_waited_for():
    async with running() as cluster, cluster.client("test") as client:
        await install_definitions(client)
        held = {"metadata": {"finalizers": ["example.com/held"]}}
        await client.patch(DEFINITIONS, NAMES[0], held)
        await client.delete(DEFINITIONS, NAMES[0])
        with pytest.raises(CommandFailed, match=f"{NAMES[0]} is being deleted"):
            await install_definitions(client)
