"""The map of 2,000 nodes: complete, smooth, and usable by mouse and keyboard."""

import re
from itertools import cycle, islice
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.cli.command import Kilonova
from tests.e2e.browser.console_cluster import ConsoleCluster, gang, start_cluster
from tests.harness.browser import TIMEOUT_MS

_NODES = 2000
_FLEET = f"""
nodes:
- name: h100
  count: {_NODES}
  gpu: {{model: NVIDIA-H100-80GB-HBM3, count: 8, memory: 80Gi}}
  zones: [zone-a, zone-b]
  blocks: 10
  racks: 100
  start: 10ms-50ms
"""

# Not wait_for_function, which evaluates text: the page's content policy forbids it.
_WAIT_FOR_NODES = """
async ([nodes, timeout]) => {
  const deadline = performance.now() + timeout;
  while (window.kilonova?.fleet?.nodes !== nodes) {
    if (performance.now() > deadline)
      throw new Error(`the map has ${window.kilonova?.fleet?.nodes} nodes`);
    await new Promise(requestAnimationFrame);
  }
}
"""


@pytest.fixture(scope="module")
def console_cluster(command: Kilonova, kubectl_path: Path) -> ConsoleCluster:
    """2,000 nodes, and a gang on four of them."""
    console_cluster = start_cluster(command, kubectl_path, _FLEET, "--durability", "normal")
    console_cluster.apply(gang("trainer", replicas=4, gpus=8))
    console_cluster.wait_running("trainer-0")
    return console_cluster


@pytest.fixture
def fleet(page: Page) -> Page:
    """The page of the fleet, with all nodes on its map."""
    page.goto("/fleet")
    page.evaluate(_WAIT_FOR_NODES, [_NODES, TIMEOUT_MS])
    return page


def test_map_is_painted_without_slow_frames(fleet: Page, console_cluster: ConsoleCluster) -> None:
    """A frame has 16 ms. On a busy machine a few frames may be late; a map that repainted every
    node in each frame would be late in all of them."""
    map_element = fleet.get_by_role("application", name="Map of the fleet")
    map_element.focus()
    box = map_element.bounding_box()
    assert box is not None
    fleet.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    before = painted(fleet)
    console_cluster.apply(gang("latecomer", replicas=8, gpus=4))
    for key in ("+", "+", "+", "-", "-", "-"):
        fleet.keyboard.press(key)
        next_frame(fleet)
    # A busy browser combines several wheel events into one frame.
    for delta in islice(cycle([*[120] * 20, *[-120] * 20]), 400):
        fleet.mouse.wheel(0, delta)
        next_frame(fleet)
        if painted(fleet) > before + 20:
            break
    console_cluster.wait_running("latecomer-0")
    frames = fleet.evaluate("window.kilonova.fleet.frames")
    assert frames["painted"] > before + 20
    assert frames["slow"] <= frames["painted"] / 4, frames


def test_clicking_a_node_shows_its_allocations(
    fleet: Page, console_cluster: ConsoleCluster
) -> None:
    pod, node = next(iter(console_cluster.nodes_of_pods("trainer-0").items()))
    point = fleet.evaluate("(node) => window.kilonova.fleet.at(node)", node)
    fleet.mouse.click(point["x"], point["y"])
    details = fleet.get_by_role("dialog", name=node)
    expect(details).to_contain_text("trainer")
    expect(details).to_contain_text(pod)
    fleet.keyboard.press("Escape")
    expect(details).to_have_count(0)


def test_arrow_keys_move_over_the_map(fleet: Page) -> None:
    fleet.get_by_role("application", name="Map of the fleet").focus()
    status = fleet.get_by_role("status").filter(has_text="GPUs allocated")
    fleet.keyboard.press("Home")
    expect(status).to_contain_text(re.compile(r"^h100-\d+ in rack"))
    first = status.text_content()
    fleet.keyboard.press("ArrowRight")
    expect(status).not_to_have_text(first or "")
    node = (status.text_content() or "").partition(" ")[0]
    fleet.keyboard.press("Enter")
    expect(fleet.get_by_role("dialog", name=node)).to_be_visible()


def test_filters_of_the_map_are_in_the_address(fleet: Page) -> None:
    health = fleet.get_by_role("radio", name="Health")
    fleet.get_by_role("radiogroup", name="Colour by").get_by_text("Health").click()
    expect(health).to_be_checked()
    fleet.get_by_role("combobox", name=re.compile("zone", re.IGNORECASE)).select_option("zone-b")
    expect(fleet).to_have_url(re.compile("colour=health"))
    expect(fleet).to_have_url(re.compile("zone=zone-b"))
    fleet.reload()
    expect(health).to_be_checked()
    fleet.evaluate(_WAIT_FOR_NODES, [_NODES // 2, TIMEOUT_MS])


def painted(page: Page) -> int:
    return page.evaluate("window.kilonova.fleet.frames.painted")


def next_frame(page: Page) -> None:
    """Let the page paint, as between two input events."""
    page.evaluate("new Promise((painted) => requestAnimationFrame(() => painted()))")
