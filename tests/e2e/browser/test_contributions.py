"""What a component outside of the tree contributes, in the browser: page, details, charts."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Literal

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.e2e.browser.console_cluster import ConsoleCluster, gang
from tests.harness.accessibility import (
    find_low_contrast_text,
    find_overflowing_elements,
    find_repeated_ids,
    find_unnamed_controls,
)
from tests.harness.browser import PageErrors


@pytest.fixture(scope="module")
def console_cluster(console_cluster: ConsoleCluster) -> Iterator[ConsoleCluster]:
    """A console of its own with the toy contribution, and recipes in a namespace of theirs."""
    console_cluster.run_kubectl("create namespace kitchen")
    console_cluster.apply(
        recipe("soup", portions="4", state="Planned", node="h100-0"),
        recipe("stew", portions="9", state="Cooked", node="h100-1"),
        recipe("toast", portions="1", state="Burnt"),
    )
    command = [sys.executable, "-m", "tests.console.toy_contribution"]
    process = subprocess.Popen(
        [*command, "--kubeconfig", str(console_cluster.data / "kubeconfig")],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        yield replace(console_cluster, link=process.stdout.readline().strip())
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


def recipe(name: str, **data: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "kitchen"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


def test_page_lists_formatted_rows_that_open_by_keyboard(page: Page) -> None:
    page.goto("/fleet")
    page.get_by_role("navigation", name="Pages").get_by_role("link", name="Recipes").click()
    expect(page).to_have_url(re.compile("/recipes$"))
    grid = page.get_by_role("grid", name="Recipes")
    # Sorted by portions, as the page describes; ConfigMaps of the cluster have none.
    expect(grid.get_by_role("row").nth(1)).to_have_text(re.compile("stew.*Cooked.*9.*90 %.*h100-1"))
    page.keyboard.press("/")
    page.keyboard.type("soup")
    expect(page).to_have_url(re.compile("q=soup"))
    expect(grid.get_by_role("row")).to_have_count(2)
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("/recipes/kitchen/stew$"))
    expect(details(page, "stew")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page).to_have_url(re.compile("/recipes$"))


def test_filter_is_part_of_the_address(page: Page) -> None:
    page.goto("/recipes?state=Burnt")
    rows = page.get_by_role("grid", name="Recipes").get_by_role("row")
    expect(rows).to_have_count(2)
    expect(rows.nth(1)).to_contain_text("toast")
    page.get_by_label("State").select_option("Cooked")
    expect(rows.nth(1)).to_contain_text("stew")
    expect(page).to_have_url(re.compile("state=Cooked"))


def test_details_link_to_other_objects(page: Page) -> None:
    page.goto("/recipes/kitchen/soup")
    soup = details(page, "soup")
    expect(soup).to_contain_text("ConfigMap in kitchen")
    expect(soup.locator(".panel-head")).to_contain_text("Planned")
    expect(soup.get_by_text("no", exact=True)).to_be_visible()
    soup.get_by_text("Live object").click()
    expect(soup.get_by_label("Object kitchen/soup")).to_contain_text('portions: "4"')
    soup.get_by_role("link", name="h100-0").click()
    node = details(page, "h100-0")
    expect(node.get_by_role("heading", name="Recipes")).to_be_visible()
    node.get_by_role("link", name="soup").click()
    expect(details(page, "soup")).to_be_visible()


def test_details_list_the_records_of_an_object(page: Page, console_cluster: ConsoleCluster) -> None:
    ingredients = [
        {"name": "flour", "amount": 3, "source": "https://example.com/flour"},
        {"name": "salt", "amount": 1, "source": "javascript:alert(1)"},
    ]
    console_cluster.apply(recipe("bread", state="Planned", ingredients=json.dumps(ingredients)))
    page.goto("/recipes/kitchen/bread")
    bread = details(page, "bread")
    expect(bread.get_by_role("heading", name="Ingredients")).to_be_visible()
    expect(bread.get_by_role("row", name=re.compile("flour.*3"))).to_be_visible()
    source = bread.get_by_role("link", name="https://example.com/flour")
    expect(source).to_have_attribute("rel", "noreferrer")
    # Text, and no link: it would run in the console's page.
    expect(bread.get_by_text("javascript:alert(1)")).to_be_visible()
    expect(bread.get_by_role("link", name="javascript:alert(1)")).to_have_count(0)


def test_action_is_confirmed_and_performed(page: Page, console_cluster: ConsoleCluster) -> None:
    console_cluster.apply(recipe("pie", portions="2", state="Planned"))
    page.goto("/recipes/kitchen/pie")
    button = details(page, "pie").get_by_role("button", name="Cook…")
    button.click()
    dialog = page.locator("dialog:modal")
    expect(dialog.get_by_text("The recipe is cooked.")).to_be_visible()
    portions = dialog.get_by_role("spinbutton", name="Portions")
    expect(portions).to_have_value("2")
    portions.fill("3")
    dialog.get_by_role("button", name="Cook").click()
    expect(dialog).to_contain_text("ConfigMap kitchen/pie cooked for 3")
    dialog.get_by_role("button", name="Close").click()
    expect(button).to_have_count(0)
    expect(details(page, "pie").locator(".panel-head")).to_contain_text("Cooked")
    command = "get configmap pie -n kitchen -o jsonpath={.data.portions}"
    assert console_cluster.run_kubectl(command) == "3"


def test_search_finds_contributed_rows(page: Page) -> None:
    page.goto("/recipes")
    expect(page.get_by_role("grid", name="Recipes")).to_contain_text("soup")
    page.keyboard.press("Control+k")
    page.get_by_role("combobox", name="Search everything by name").fill("soup")
    found = page.get_by_role("listbox", name="Results").get_by_role("option").first
    expect(found).to_have_text("RecipesoupPlanned, on h100-0")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("/recipes/kitchen/soup$"))


def test_unknown_address_below_no_page_is_not_found(page: Page, browser_errors: PageErrors) -> None:
    response = page.goto("/recipe")
    assert response is not None
    assert response.status == 404
    expect(page.get_by_role("main").get_by_role("link", name="/recipes")).to_be_visible()
    assert all("404" in each for each in browser_errors.take_all())
    page.goto("/recipes/kitchen/none")
    expect(details(page, "none").get_by_text("ConfigMap not found")).to_be_visible()


def test_charts_have_their_values_as_text(page: Page) -> None:
    page.goto("/recipes")
    # The console samples every ten seconds.
    over_time = page.get_by_role("img", name=re.compile(r"^Portions\. Portions: [\d.]+ now"))
    expect(over_time).to_be_visible()
    expect(over_time.locator("canvas")).to_be_visible()
    expect(page.get_by_role("img", name=re.compile(r"^Portions per recipe\. "))).to_be_visible()
    page.get_by_label("Values of Portions", exact=True).click()
    table = page.get_by_role("table").filter(has_text="Time")
    expect(table.get_by_role("row").nth(1)).to_have_text(re.compile(r"\d\d:\d\d:\d\d(\d+|–)"))
    page.get_by_role("button", name="24 h").click()
    expect(page).to_have_url(re.compile("range=24h"))
    expect(over_time.locator("canvas")).to_be_visible()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_contributed_page_is_accessible(page: Page, theme: Literal["light", "dark"]) -> None:
    page.emulate_media(color_scheme=theme)
    page.goto("/recipes/kitchen/soup")
    expect(details(page, "soup").get_by_role("img", name=re.compile("^Portions"))).to_be_visible()
    assert find_unnamed_controls(page) == []
    assert find_repeated_ids(page) == []
    assert find_low_contrast_text(page) == []
    page.set_viewport_size({"width": 390, "height": 844})
    expect(details(page, "soup")).to_be_in_viewport()
    assert find_overflowing_elements(page) == []
    page.goto("/recipes")
    expect(page.get_by_role("grid", name="Recipes")).to_contain_text("stew")
    current = page.get_by_role("navigation", name="Pages").locator("[aria-current=page]")
    expect(current).to_be_in_viewport()
    assert find_overflowing_elements(page) == []


def test_metrics_of_gpus_are_shown_where_they_exist(page: Page) -> None:
    page.goto("/fleet?node=h100-0")
    text = "83 % busy, 40 of 80 GiB, 512 W, 61 °C"
    expect(details(page, "h100-0").get_by_text(text)).to_have_count(1)
    page.get_by_role("radio", name="Usage").check(force=True)
    expect(page).to_have_url(re.compile("colour=usage"))
    legend = page.get_by_role("group", name="Legend")
    expect(legend).to_contain_text("Utilisation of 1 GPU: 83 % on average, 0.5 kW.")


@pytest.mark.parametrize(
    ("workload", "path"),
    [
        pytest.param("ConfigMap_feast", "/recipes/kitchen/feast", id="page of its own"),
        pytest.param(
            "Chat.example.com_c", "/workloads/Chat.example.com/kitchen/c", id="no page of its own"
        ),
    ],
)
def test_gang_made_for_another_workload_links_to_it(
    page: Page, console_cluster: ConsoleCluster, workload: str, path: str
) -> None:
    console_cluster.apply(recipe("feast", portions="9"))
    name = f"made-for-{workload.partition('_')[2]}"
    made = gang(name, replicas=9, gpus=8)
    made["metadata"] |= {"namespace": "kitchen", "labels": {"kilonova.dev/workload": workload}}
    console_cluster.apply(made)
    pending = f"wait --for=condition=Unschedulable podgang/{name}-0 -n kitchen --timeout=60s"
    console_cluster.run_kubectl(f"wait --for=create podgang/{name}-0 -n kitchen --timeout=60s")
    console_cluster.run_kubectl(pending)
    page.goto(f"/events?q={name}-0&kind=PodGang")
    page.get_by_role("link", name=re.compile(f"{name}-0")).first.click()
    expect(page).to_have_url(re.compile(f"{re.escape(path)}$"))
    expect(details(page, workload.partition("_")[2])).to_be_visible()
    expect(page.get_by_text("not found")).to_have_count(0)


def details(page: Page, name: str) -> Locator:
    """The panel with the details of an object."""
    return page.get_by_role("dialog", name=name)
