"""The map of 2,000 nodes: complete, smooth, and usable by mouse and keyboard."""

import re
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

_WAIT_FOR_FRAME = """
async ([painted, timeout]) => {
  const deadline = performance.now() + timeout;
  while (window.kilonova.fleet.frames.painted === painted) {
    if (performance.now() > deadline) throw new Error("the map is not painted again");
    await new Promise(requestAnimationFrame);
  }
}
"""


class ScriptCpuTime:
    """The CPU time that the scripts of a page have taken, on its thread alone."""

    def __init__(self, page: Page) -> None:
        self._session = page.context.new_cdp_session(page)
        self._session.send("Performance.enable", {"timeDomain": "threadTicks"})

    def read_ms(self) -> float:
        metrics = self._session.send("Performance.getMetrics")["metrics"]
        (seconds,) = (each["value"] for each in metrics if each["name"] == "ScriptDuration")
        return seconds * 1000


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
    """A frame has 16 ms, half of which is left for layout and for the browser's own work. CPU time
    counts, not the clock: on a busy machine frames are late that cost little."""
    map_element = fleet.get_by_role("application", name="Map of the fleet")
    map_element.focus()
    box = map_element.bounding_box()
    assert box is not None
    fleet.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    cpu_time = ScriptCpuTime(fleet)
    frames_before, cpu_before = painted(fleet), cpu_time.read_ms()
    console_cluster.apply(gang("latecomer", replicas=8, gpus=4))
    for key in ("+", "+", "+", "-", "-", "-") * 2 + ("+", "+", "+"):
        fleet.keyboard.press(key)
        next_frame(fleet)
    for delta in [120] * 4 + [-120] * 4:
        before = painted(fleet)
        fleet.mouse.wheel(0, delta)  # scrolls the map, which is larger than its element now
        fleet.evaluate(_WAIT_FOR_FRAME, [before, TIMEOUT_MS])
    console_cluster.wait_running("latecomer-0")
    frames = painted(fleet) - frames_before
    assert frames > 20
    assert (cpu_time.read_ms() - cpu_before) / frames < 8


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
