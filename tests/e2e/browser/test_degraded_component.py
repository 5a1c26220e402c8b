"""A component that has failed is announced on every page of the console."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.component.toy.parts import FAILURE_VARIABLE
from tests.component.toy_command import ToyKilonova
from tests.e2e.browser.console_cluster import ConsoleCluster
from tests.harness.kubectl import Kubectl


@pytest.fixture(scope="module")
def command(
    chromium_command: object, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ToyKilonova]:
    """The command with the toy component."""
    kilonova = ToyKilonova(tmp_path_factory.mktemp("home"))
    yield kilonova
    kilonova.stop_all()


@pytest.fixture(scope="module")
def console_cluster(command: ToyKilonova, kubectl_path: Path) -> ConsoleCluster:
    """A cluster whose toy component fails."""
    data, failure = command.home / "data", command.home / "failure"
    failure.touch()
    command.stop_after_test(data)
    words = ("--detach", "--wait", "--port", "0", "--console-port", "0", "--data", data)
    started = command(
        "up", *words, "--only", "greeter,console", variables={FAILURE_VARIABLE: str(failure)}
    )
    assert started.code == 0, started.err
    link = command.status(data)["console"]
    kubectl = Kubectl(kubectl_path, data / "kubeconfig", command.home)
    return ConsoleCluster(command, data, kubectl, link)


@pytest.mark.parametrize("path", ["/fleet", "/greetings"])
def test_degraded_component_is_announced(page: Page, path: str) -> None:
    page.goto(path)
    notice = page.get_by_role("status").filter(has_text="Component greeter is degraded.")
    expect(notice).to_have_text(
        re.compile("and is restarted with backoff: the greeter has lost its voice")
    )
