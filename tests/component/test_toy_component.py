"""The toy component appears everywhere by its registration alone."""

import asyncio
import re
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import psutil
import pytest
from typer.testing import CliRunner

from kilonova.cli.commands.app import app
from kilonova.component import find_components
from kilonova.component.console.registered import build_with_contributions
from kilonova.kube import Client, KubeError, connect
from tests.component.toy.kind import GREETINGS
from tests.component.toy.parts import FAILURE_VARIABLE
from tests.component.toy_command import ROOT, ToyKilonova
from tests.console.console_page import ConsolePage
from tests.local.embedded_cluster import wait_for_condition
from tools.docs.menu import build_menu
from tools.docs.pages import collect_pages

COMPONENTS = ("--only", "greeter,console", "--console-port", "0")


@pytest.fixture(scope="module")
def toy_cluster(toy_kilonova: ToyKilonova) -> Path:
    """The data directory of a cluster with the toy component."""
    data = toy_kilonova.home / "cluster"
    toy_kilonova.stop_after_test(data)
    mode = ("--detach", "--wait", "--port", "0", "--data", data)
    done = toy_kilonova("up", *mode, *COMPONENTS, "--salutation", "Good morning")
    assert done.code == 0, done.err
    return data


@asynccontextmanager
async def open_console(link: str) -> AsyncGenerator[ConsolePage]:
    """An open page of the console at a link."""
    address, _, token = link.partition("/?token=")
    headers = {"authorization": f"Bearer {token}"}
    async with (
        aiohttp.ClientSession(address, headers=headers) as session,
        session.get("/api/stream") as reply,
    ):
        yield ConsolePage(reply.content)


async def wait_for_message(client: Client, name: str, message: str) -> None:
    async def is_said() -> bool:
        return (await client.get(GREETINGS, name, "default")).status.message == message

    await wait_for_condition(is_said)


async def test_its_controller_and_webhook_run_in_the_cluster(toy_cluster: Path) -> None:
    async with connect(toy_cluster / "kubeconfig") as client:
        await client.create(
            GREETINGS, {"metadata": {"name": "one"}, "spec": {"whom": "Ada"}}, "default"
        )
        await wait_for_message(client, "one", "Good morning, Ada!")
        with pytest.raises(KubeError, match=r"spec\.whom: must name whom to greet"):
            await client.create(GREETINGS, {"metadata": {"name": "two"}}, "default")


def test_status_doctor_and_its_command_show_it(
    toy_kilonova: ToyKilonova, toy_cluster: Path
) -> None:
    status = toy_kilonova.status(toy_cluster)
    assert status["components"]["greeter"] == "running"
    assert status["components"]["scheduler"] == "off"
    doctor = toy_kilonova("doctor", "--kubeconfig", toy_cluster / "kubeconfig").out
    assert "greeter: is running, inside of `kilonova up`" in doctor
    assert "greetings: all " in doctor
    listed = toy_kilonova("greetings", "--kubeconfig", toy_cluster / "kubeconfig")
    assert (listed.code, listed.err) == (0, "")


async def test_console_shows_its_table(toy_kilonova: ToyKilonova, toy_cluster: Path) -> None:
    async with connect(toy_cluster / "kubeconfig") as client:
        await client.create(
            GREETINGS, {"metadata": {"name": "shown"}, "spec": {"whom": "Eve"}}, "default"
        )
        async with open_console(toy_kilonova.status(toy_cluster)["console"]) as page:
            row = await page.wait_until(
                lambda page: (page.row("greetings", "default/shown") or {}).get("message"), 60
            )
    assert row == "Good morning, Eve!"


async def test_its_child_process_runs_and_logs(
    toy_kilonova: ToyKilonova, toy_cluster: Path
) -> None:
    log = toy_cluster / "components" / "greeter" / "singer.log"

    async def has_sung() -> bool:
        return log.exists() and log.read_text() == "singing\n"

    await wait_for_condition(has_sung)
    cluster = psutil.Process(toy_kilonova.status(toy_cluster)["pid"])
    lines = [" ".join(each.cmdline()) for each in cluster.children(recursive=True)]
    assert any("singing" in each and "shim.py" not in each for each in lines)


async def test_failing_component_is_degraded_and_the_cluster_goes_on(
    toy_kilonova: ToyKilonova, tmp_path: Path
) -> None:
    data, failure = tmp_path / "data", tmp_path / "failure"
    failure.touch()
    toy_kilonova.stop_after_test(data)
    mode = ("--detach", "--wait", "--port", "0", "--data", data)
    started = toy_kilonova("up", *mode, *COMPONENTS, variables={FAILURE_VARIABLE: str(failure)})
    assert started.code == 0, started.err
    status = toy_kilonova.status(data)
    assert status["components"]["greeter"] == "degraded"
    assert "the greeter has lost its voice" in status["problems"]["greeter"]
    doctor = toy_kilonova("doctor", "--kubeconfig", data / "kubeconfig")
    assert doctor.code == 1
    assert "and is restarted with backoff: the greeter has lost its voice" in doctor.out
    async with open_console(status["console"]) as page:
        await page.wait_until(lambda page: "greeter" in page.degraded, 60)
        assert "the greeter has lost its voice" in page.degraded["greeter"]
    async with connect(data / "kubeconfig") as client:
        await client.create(
            GREETINGS, {"metadata": {"name": "late"}, "spec": {"whom": "Bob"}}, "default"
        )
        # It also runs as a process of its own, by a command that is made from its registration.
        process = subprocess.Popen(
            toy_kilonova.command(
                *("run", "greeter", "--no-leader-elect", "--health-port", "0"),
                *("--kubeconfig", data / "kubeconfig"),
            ),
            env=toy_kilonova.environment(),
        )
        try:
            await wait_for_message(client, "late", "Hello, Bob!")
        finally:
            process.terminate()
            assert await asyncio.to_thread(process.wait, 60) == 0
        # What failed is tried again, until it runs.
        failure.unlink()
        await client.create(
            GREETINGS, {"metadata": {"name": "later"}, "spec": {"whom": "Cy"}}, "default"
        )
        await wait_for_message(client, "later", "Hello, Cy!")


@pytest.mark.usefixtures("toy_registered")
def test_command_line_has_its_commands_and_flags() -> None:
    def help_of(*words: str) -> str:
        return CliRunner().invoke(app, [*words, "--help"], prog_name="kilonova").output

    assert re.search(r"^  greetings +List greetings\.$", help_of(), re.MULTILINE)
    assert "  greeter    Run greeter, until SIGTERM or Ctrl-C.\n" in help_of("run")
    assert "kilonova run greeter --kubeconfig ./kubeconfig" in help_of("run", "greeter")
    options = help_of("up")
    assert "--greeter / --no-greeter" in options
    assert "--salutation" in options
    assert (
        "greeter"
        not in CliRunner(env={"KILONOVA_COMPONENTS": ""}).invoke(app, ["up", "--help"]).output
    )


@pytest.mark.usefixtures("toy_registered")
def test_install_selects_its_definition() -> None:
    done = CliRunner().invoke(app, ["install", "-o", "yaml", "--components", "greeter"])
    assert "  name: greetings.toy.example.com\n" in done.output
    assert "podgangs" not in done.output


@pytest.mark.usefixtures("toy_registered")
def test_console_gets_its_contribution() -> None:
    found = build_with_contributions(lambda found: [each.component for each in found])
    assert "greeter" in found


@pytest.mark.usefixtures("toy_registered")
def test_documentation_lists_its_page() -> None:
    pages = collect_pages(ROOT, find_components()).pages
    assert "how to be greeted" in pages["README.md"]
    page = {"Greetings": "files/tests/component/toy/greetings.md.md"}
    assert page in [entry for group in build_menu(pages) for entry in group.get("Using it", ())]
