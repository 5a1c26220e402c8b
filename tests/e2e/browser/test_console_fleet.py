"""The map of 2,000 nodes: all of them are there, it moves smoothly, and it tells who is where."""

import re
from itertools import cycle, islice
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.cli.command import Kilonova
from tests.e2e.browser.place import Place, gang, start
from tests.harness.browser import PATIENCE

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
_UNTIL_THERE = """
async ([nodes, patience]) => {
  const deadline = performance.now() + patience;
  while (window.kilonova?.fleet?.nodes !== nodes) {
    if (performance.now() > deadline)
      throw new Error(`the map has ${window.kilonova?.fleet?.nodes} nodes`);
    await new Promise(requestAnimationFrame);
  }
}
"""


@pytest.fixture(scope="module")
def place(command: Kilonova, kubectl_path: Path) -> Place:
    """2,000 nodes, and a gang on four of them."""
    place = start(command, kubectl_path, _FLEET, "--durability", "normal")
    place.apply(gang("trainer", replicas=4, gpus=8))
    place.until_running("trainer-0")
    return place


@pytest.fixture
def fleet(page: Page) -> Page:
    """The page of the fleet, with all nodes on its map."""
    page.goto("/fleet")
    page.evaluate(_UNTIL_THERE, [_NODES, PATIENCE])
    return page


def test_it_is_painted_without_frames_worth_noting(fleet: Page, place: Place) -> None:
    """A frame has 16 ms. On a busy machine the painter may be interrupted in any of them, so a
    few may be late; a map that painted every node anew for each would be late in all."""
    chart = fleet.get_by_role("application", name="Map of the fleet")
    chart.focus()
    box = chart.bounding_box()
    assert box is not None
    fleet.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    before = painted(fleet)
    place.apply(gang("latecomer", replicas=8, gpus=4))
    for key in ("+", "+", "+", "-", "-", "-"):
        fleet.keyboard.press(key)
        next_frame(fleet)
    # How many movements a frame takes together is the browser's choice: a busy one takes more.
    for turn in islice(cycle([*[120] * 20, *[-120] * 20]), 400):
        fleet.mouse.wheel(0, turn)
        next_frame(fleet)
        if painted(fleet) > before + 20:
            break
    place.until_running("latecomer-0")
    frames = fleet.evaluate("window.kilonova.fleet.frames")
    assert frames["painted"] > before + 20
    assert frames["slow"] <= frames["painted"] / 4, frames


def test_a_click_on_a_node_tells_who_holds_what(fleet: Page, place: Place) -> None:
    pod, node = next(iter(place.pods("trainer-0").items()))
    spot = fleet.evaluate("(node) => window.kilonova.fleet.at(node)", node)
    fleet.mouse.click(spot["x"], spot["y"])
    details = fleet.get_by_role("dialog", name=node)
    expect(details).to_contain_text("trainer")
    expect(details).to_contain_text(pod)
    fleet.keyboard.press("Escape")
    expect(details).to_have_count(0)


def test_arrow_keys_walk_over_the_map(fleet: Page) -> None:
    fleet.get_by_role("application", name="Map of the fleet").focus()
    said = fleet.get_by_role("status").filter(has_text="GPUs held")
    fleet.keyboard.press("Home")
    expect(said).to_contain_text(re.compile(r"^h100-\d+ in rack"))
    first = said.text_content()
    fleet.keyboard.press("ArrowRight")
    expect(said).not_to_have_text(first or "")
    node = (said.text_content() or "").partition(" ")[0]
    fleet.keyboard.press("Enter")
    expect(fleet.get_by_role("dialog", name=node)).to_be_visible()


def test_what_the_map_shows_is_in_the_address(fleet: Page) -> None:
    health = fleet.get_by_role("radio", name="Health")
    fleet.get_by_role("radiogroup", name="Colour by").get_by_text("Health").click()
    expect(health).to_be_checked()
    fleet.get_by_role("combobox", name=re.compile("zone", re.IGNORECASE)).select_option("zone-b")
    expect(fleet).to_have_url(re.compile("colour=health"))
    expect(fleet).to_have_url(re.compile("zone=zone-b"))
    fleet.reload()
    expect(health).to_be_checked()
    fleet.evaluate(_UNTIL_THERE, [_NODES // 2, PATIENCE])


def painted(page: Page) -> int:
    return page.evaluate("window.kilonova.fleet.frames.painted")


def next_frame(page: Page) -> None:
    """Let the page paint, as it does between two movements of a hand."""
    page.evaluate("new Promise((painted) => requestAnimationFrame(() => painted()))")
