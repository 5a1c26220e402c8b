"""`deploy/console` on both servers: its account can look, or act as well, and no more."""

import json
from pathlib import Path

import aiohttp
import pytest
import yaml

from kilonova.cli.install import install_definitions
from tests.conftest import Api
from tests.console.looking import TOKEN, Page
from tests.harness.kubectl import Kubectl
from tests.harness.rights import Account, Act
from tests.local.admission.webhook_server import until
from tests.workloads.process.operator_process import part_process, token_kubeconfig

DEPLOY = Path(__file__).parents[2] / "deploy"
NAMESPACE = "kilonova-system"

LOOKS: list[Act] = [
    *(
        (verb, "", plural, "")
        for verb in ("list", "watch")
        for plural in ("nodes", "pods", "events")
    ),
    ("get", "", "pods", "team"),
    ("get", "", "pods/log", "team"),
    ("watch", "apps", "deployments", ""),
    ("watch", "apps", "statefulsets", ""),
    ("watch", "batch", "jobs", ""),
    ("watch", "scheduler.grove.io", "podgangs", ""),
    ("watch", "grove.io", "podcliquesets", ""),
    ("watch", "grove.io", "podcliques", ""),
    ("watch", "scheduling.kilonova.dev", "queues", ""),
    ("list", "metrics.k8s.io", "nodes", ""),
    ("list", "scheduling.kilonova.dev", "reservations", ""),
]
ACTS: list[Act] = [
    *(
        (verb, "apps", resource, "team")
        for resource in ("deployments", "statefulsets")
        for verb in ("patch", "delete")
    ),
    ("patch", "apps", "deployments/scale", "team"),
    ("patch", "apps", "statefulsets/scale", "team"),
    ("patch", "batch", "jobs", "team"),
    ("delete", "batch", "jobs", "team"),
    ("patch", "grove.io", "podcliquesets/scale", "team"),
    ("patch", "grove.io", "podcliques/scale", "team"),
    ("patch", "", "nodes", ""),
    ("create", "", "pods/eviction", "team"),
    ("delete", "", "pods", "team"),
    ("delete", "grove.io", "podcliquesets", "team"),
    ("delete", "grove.io", "podcliques", "team"),
    ("delete", "scheduler.grove.io", "podgangs", "team"),
]
NEVER: list[Act] = [
    ("get", "", "secrets", NAMESPACE),
    ("list", "", "secrets", ""),
    ("get", "", "configmaps", "team"),
    ("create", "", "pods", "team"),
    ("create", "apps", "deployments", "team"),
    ("create", "batch", "jobs", "team"),
    ("patch", "apps", "deployments/status", "team"),
    ("create", "", "pods/exec", "team"),
    ("patch", "", "pods", "team"),
    ("delete", "", "nodes", ""),
    ("patch", "", "nodes/status", ""),
    ("patch", "grove.io", "podcliquesets", "team"),
    ("create", "rbac.authorization.k8s.io", "clusterrolebindings", ""),
]


@pytest.mark.parametrize(("folder", "acts"), [("console", False), ("console-actions", True)])
def test_its_account_can_do_that_and_nothing_else(
    api: Api, kubectl: Kubectl, folder: str, acts: bool
) -> None:
    done = kubectl(["apply", "-k", str(DEPLOY / folder)])
    assert done.code == 0, done.err
    account = Account(api, NAMESPACE, "kilonova-console")
    until(lambda: all(account.may(*act) for act in (*LOOKS, *(ACTS if acts else ()))))
    table = {
        **dict.fromkeys(LOOKS, True),
        **dict.fromkeys(ACTS, acts),
        **dict.fromkeys(NEVER, False),
    }
    assert {act: account.may(*act) for act in table} == table
    command = ["get", "deployment", "kilonova-console", "-n", NAMESPACE, "-o", "json"]
    deployment = json.loads(kubectl(command).out)
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert ("--allow-actions" in container["command"]) is acts
    done = kubectl(["delete", "-k", str(DEPLOY / folder), "--ignore-not-found"])
    assert done.code == 0, done.err


async def test_with_these_rights_it_shows_everything_and_says_why(
    api: Api, kubectl: Kubectl, tmp_path: Path
) -> None:
    async with api.client() as client:
        await install_definitions(client)
    done = kubectl(["apply", "-k", str(DEPLOY / "console")])
    assert done.code == 0, done.err
    account = Account(api, NAMESPACE, "kilonova-console")
    until(lambda: all(account.may(*act) for act in LOOKS))
    kubeconfig = token_kubeconfig(api.access, tmp_path / "account", account.token())
    file = tmp_path / "token"
    file.write_text(TOKEN + "\n")
    with part_process(
        "console", kubeconfig, tmp_path, "--port", "0", "--token-file", str(file)
    ) as running:
        log = running.process.log.read_text()
        served = next(json.loads(line) for line in log.splitlines() if '"console"' in line)
        headers = {"authorization": f"Bearer {TOKEN}"}
        url = f"http://127.0.0.1:{served['port']}"
        async with aiohttp.ClientSession(url, headers=headers) as session:
            async with session.get(f"/?token={TOKEN}"), session.get("/api/stream") as reply:
                page = await Page(reply.content).filled()
            query = {"namespace": api.namespace, "name": "nobody"}
            async with session.get("/api/why", params=query) as reply:
                assert (reply.status, "no pod or gang" in await reply.text()) == (404, True)
        assert set(page.resets) == set(page.hello["tables"])
        also = ["default-scheduler"] if api.server == "embedded" else []
        assert page.hello["schedulers"] == [*also, "kilonova-scheduler"]
        log = running.process.log.read_text()
        assert "forbidden" not in log.lower()
        assert TOKEN not in log


def test_the_token_is_a_file_that_no_manifest_holds() -> None:
    deployment = yaml.safe_load((DEPLOY / "console" / "deployment.yaml").read_text())
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["command"][-2:] == ["--token-file", "/etc/kilonova-console/token"]
    assert {
        "name": "token",
        "secret": {"secretName": "kilonova-console", "defaultMode": 0o440},
    } in (pod["volumes"])
