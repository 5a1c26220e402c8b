"""The page of inference services: one at rest, under load, and its traced requests."""

import re
import threading
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.cli.command import Kilonova
from tests.e2e.browser.console_cluster import SMALL_FLEET, ConsoleCluster, start_cluster
from tests.harness.accessibility import (
    find_low_contrast_text,
    find_overflowing_elements,
    find_repeated_ids,
    find_unnamed_controls,
)
from tests.serving.service_on_this_machine import request

TRACE = "0af7651916cd43dd8448eb211c80319c"
TRACED = {"traceparent": f"00-{TRACE}-b7ad6b7169203331-01"}
QUESTION = {"model": "demo", "prompt": "Hello", "max_tokens": 4}
SERVICE = {
    "apiVersion": "serving.kilonova.dev/v1alpha1",
    "kind": "InferenceService",
    "metadata": {"name": "helper"},
    "spec": {
        "servers": [
            {
                "name": "llm",
                "runtime": "ModelServer",
                "protocol": "OpenAI",
                "args": ["--llm", "demo"],
                "drain": "2s",
                "replicas": 0,
                "autoscaling": {"minReplicas": 0, "maxReplicas": 2},
            }
        ],
        # Nobody listens there: the page does not depend on a collector.
        "gateway": {"tracing": {"endpoint": "127.0.0.1:1", "samplingPercent": 0}},
    },
}
LAPTOP, PHONE = (1280, 800), (390, 844)


@pytest.fixture(scope="module")
def console_cluster(command: Kilonova, kubectl_path: Path) -> ConsoleCluster:
    """A cluster whose pods run on this machine."""
    return start_cluster(command, kubectl_path, SMALL_FLEET, "--process-node")


@pytest.fixture(scope="module")
def url(console_cluster: ConsoleCluster) -> str:
    """The address of a service at rest."""
    console_cluster.apply(SERVICE)
    console_cluster.run_kubectl(
        "wait isvc/helper --for=jsonpath={.status.phase}=Idle --timeout=90s"
    )
    return console_cluster.run_kubectl("get isvc/helper -o jsonpath={.status.url}")


@contextmanager
def steady_load(url: str) -> Generator[None]:
    """A client that asks one question after the other."""
    stopped = threading.Event()

    def ask() -> None:
        while not stopped.is_set():
            request(f"{url}/v1/completions", QUESTION)

    client = threading.Thread(target=ask)
    client.start()
    try:
        yield
    finally:
        stopped.set()
        client.join()


def find_row(page: Page) -> Locator:
    return page.get_by_role("grid", name="Inference").get_by_role("row", name=re.compile("helper"))


def read_figure(page: Page, column: str) -> Locator:
    """The cell of a column in the row of the service."""
    headers = page.get_by_role("grid", name="Inference").get_by_role("columnheader")
    expect(headers.first).to_be_visible()
    at = [each.strip() for each in headers.all_inner_texts()].index(column)
    return find_row(page).get_by_role("gridcell").nth(at)


def test_service_at_rest_starts_with_a_request_and_shows_its_load(page: Page, url: str) -> None:
    page.goto("/inference")
    expect(find_row(page)).to_contain_text("Idle")
    expect(read_figure(page, "Ready")).to_have_text("0")
    ask_traced(url)
    with steady_load(url):
        expect(find_row(page)).to_contain_text("Ready")
        expect(read_figure(page, "Ready")).to_have_text(re.compile(r"^[12]$"))
        some = re.compile(r"^(?!0$)\d+(\.\d)?$")
        expect(read_figure(page, "Requests/s")).to_have_text(some)
        expect(read_figure(page, "p95 ms")).to_have_text(some)
        expect(read_figure(page, "Tokens/s")).to_have_text(some)
    find_row(page).click()
    details = page.get_by_role("dialog", name="helper")
    expect(details.get_by_role("heading", name="Pods")).to_be_visible()
    expect(details.get_by_role("link", name=re.compile("helper-gateway-"))).to_be_visible()
    expect(details.get_by_role("figure", name=re.compile("Latency at the gateway"))).to_be_visible()


def ask_traced(url: str) -> None:
    """The first request, which waits for a server, and which its client traces."""
    body = b'{"model": "demo", "prompt": "Hello", "max_tokens": 4}'
    traced = urllib.request.Request(f"{url}/v1/completions", body, TRACED)
    with urllib.request.urlopen(traced, timeout=60) as reply:
        assert reply.status == 200


@pytest.mark.parametrize("size", [LAPTOP, PHONE])
def test_traced_request_is_shown_with_its_trace(
    page: Page, url: str, size: tuple[int, int]
) -> None:
    page.set_viewport_size({"width": size[0], "height": size[1]})
    ask_traced(url)
    page.goto("/inference/default/helper")
    details = page.get_by_role("dialog", name="helper")
    expect(details.get_by_role("heading", name=re.compile("Traced requests"))).to_be_visible()
    traced = details.get_by_role("row", name=re.compile(TRACE)).first
    expect(traced).to_contain_text("POST /v1/completions")
    expect(traced).to_contain_text("200")
    assert find_overflowing_elements(page) == []
    assert find_unnamed_controls(page) == []
    assert find_repeated_ids(page) == []
    assert find_low_contrast_text(page) == []


@pytest.mark.parametrize("size", [LAPTOP, PHONE])
def test_name_of_a_service_has_room(page: Page, url: str, size: tuple[int, int]) -> None:
    page.set_viewport_size({"width": size[0], "height": size[1]})
    page.goto("/inference")
    name = find_row(page).get_by_role("gridcell").first
    expect(name).to_have_text("helper")
    box = name.bounding_box()
    assert box is not None
    assert box["width"] > 60
    assert find_overflowing_elements(page) == []
