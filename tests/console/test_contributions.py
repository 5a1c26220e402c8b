"""What a component contributes appears in the console: tables, pages, actions; checks of it."""

import json
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
import pytest_asyncio

from kilonova.component.console import (
    Action,
    ChartLine,
    Column,
    Conditions,
    ConsoleContribution,
    Entries,
    Fields,
    Histogram,
    InvalidContribution,
    Page,
    Related,
    SearchTarget,
    Series,
    Table,
    TimeChart,
)
from kilonova.console import Console
from kilonova.console.core import CONTRIBUTION as CORE
from kilonova.console.description import Assembly
from kilonova.console.server import DERIVED_TABLES
from kilonova.kube import Client, unstructured_resource
from tests.console.console_page import http_session, open_page, post_action, running_console
from tests.console.toy_contribution import CONTRIBUTION, RECIPES, cook, recipe_row
from tests.local.embedded_cluster import run_cluster

pytestmark = pytest.mark.asyncio(loop_scope="module")
CONFIG_MAPS = unstructured_resource("", "v1", "configmaps", "ConfigMap", True)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client() -> AsyncIterator[Client]:
    async with run_cluster() as cluster:
        yield cluster.client("kilonova")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def console(client: Client) -> AsyncIterator[Console]:
    async with running_console(
        client, allow_actions=True, contributions=(CONTRIBUTION,)
    ) as console:
        yield console


async def test_rows_of_a_contributed_table_are_live(client: Client, console: Console) -> None:
    async with open_page(console) as page:
        await page.wait_for_tables()
        await client.create(CONFIG_MAPS, recipe("soup", portions="4"), "default")
        row = await page.wait_until(lambda page: page.row("recipes", "default/soup"))
        assert row == {
            "id": "default/soup",
            "state": "Planned",
            "portions": 4,
            "share": 0.4,
        }


async def test_contributed_action_is_performed_or_rejected(
    client: Client, console: Console
) -> None:
    await client.create(CONFIG_MAPS, recipe("stew"), "default")
    target = {"action": "cook", "table": "recipes", "id": "default/stew"}
    assert await post_action(console, **target, value=6) == (
        200,
        "ConfigMap default/stew cooked for 6",
    )
    assert (await client.get(CONFIG_MAPS, "stew", "default"))["data"]["portions"] == "6"
    assert await post_action(console, **target, value=101) == (
        400,
        "101 portions do not fit into the pot",
    )
    assert await post_action(console, **target, value=0) == (
        400,
        "portions is 0: want a number, 1 to 2147483647",
    )
    target["table"] = "pods"
    assert await post_action(console, **target) == (400, "cannot cook pods: only recipes")


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/recipes", 200),
        ("/recipes/default/soup", 200),
        ("/recipesx", 404),
        ("/recipe", 404),
    ],
)
async def test_contributed_page_has_addresses(console: Console, path: str, status: int) -> None:
    async with http_session(console) as session, session.get(path) as reply:
        assert reply.status == status


async def test_document_describes_the_contributions(console: Console) -> None:
    async with http_session(console) as session, session.get("/recipes") as reply:
        document = await reply.text()
    found = re.search(r'<script id="description"[^>]*>(.*?)</script>', document, re.DOTALL)
    assert found is not None
    described = json.loads(found[1])
    titles = [page["title"] for page in described["pages"]]
    assert titles == ["Fleet", "Workloads", "Nodes", "Events", "Recipes"]
    kinds = {each["name"]: (each["kind"], each["workloadKind"]) for each in described["tables"]}
    assert kinds["recipes"] == ("ConfigMap", "ConfigMap")
    assert kinds["events"] == ("Event", "Event")
    assert kinds["sets"] == ("PodCliqueSet", "PodCliqueSet")
    (action,) = (each for each in described["actions"] if each["table"] == "recipes")
    assert (action["name"], action["title"], action["value"]["label"]) == (
        "cook",
        "Cook",
        "Portions",
    )
    assert described["sections"]["nodes"][0]["type"] == "related"
    assert [each["kind"] for each in described["search"]][-3:] == ["Recipe", "Gang", "Pod"]


async def test_texts_cannot_end_the_description(client: Client) -> None:
    text = "</script><script>alert(1)</script>"
    page = Page(path="/odd", title="Odd", table="pods", columns=(NAME,), empty=text)
    odd = ConsoleContribution(component="odd", pages=(page,))
    async with (
        running_console(client, contributions=(odd,)) as console,
        http_session(console) as session,
        session.get("/odd") as reply,
    ):
        document = await reply.text()
    assert "alert(1)" in document
    assert "<script>alert" not in document


async def test_letter_of_a_page_belongs_to_the_first() -> None:
    pages = [
        Page(path=f"/{name}", title=name, key="x", table="pods", columns=(NAME,), order=order)
        for name, order in (("late", 9), ("early", 1))
    ]
    assembly = assemble(ConsoleContribution(component="a", pages=tuple(pages)))
    keys = {page.path: page.key for page in assembly.describe().pages}
    assert (keys["/early"], keys["/late"]) == ("x", "")


NAME = Column(field="name", title="Name")


def page(**changes: Any) -> ConsoleContribution:
    """A contribution with one page of pods."""
    fields: dict[str, Any] = {"path": "/p", "title": "P", "table": "pods", "columns": (NAME,)}
    return ConsoleContribution(component="a", pages=(Page(**fields | changes),))


def wrong_column(field: str) -> Column:
    return Column(field=field, title="Wrong")


@pytest.mark.parametrize(
    ("contribution", "problem"),
    [
        (
            replace(CONTRIBUTION, tables=(Table("pods", RECIPES, recipe_row),)),
            "kitchen: table pods exists already, from console",
        ),
        (
            replace(CONTRIBUTION, tables=(Table("workloads", RECIPES, recipe_row),)),
            "table workloads is computed by the console",
        ),
        (
            page(columns=(Column(field="sort", title="Sort", filter=True),)),
            "page /p: table pods has no field 'sort'",
        ),
        (replace(page(), pages=CORE.pages[:1]), "page /fleet exists already, from console"),
        (page(path="/api"), "page /api is reserved"),
        (page(path="/a/b"), "page /a/b: want `/` and lower case letters"),
        (page(key="ab"), "key 'ab': want one letter"),
        (page(table="podz"), "page /p: unknown table 'podz': want one of cliques, deployments"),
        (page(columns=()), "page /p has a table without columns"),
        (page(table=""), "page /p has columns or sections: name their table"),
        (page(columns=(wrong_column("nod"),)), "table pods has no field 'nod': want one of"),
        (page(columns=(wrong_column("readyAtt"),)), "has no field 'readyAtt'"),
        (page(sort="node"), "sort 'node' is not a column"),
        (page(state=wrong_column("stat")), "has no field 'stat'"),
        (
            page(columns=(Column(field="node", title="Node", link="nodez"),)),
            "link of node: unknown table 'nodez'",
        ),
        (page(sections=(Conditions(),)), "table pods has no field 'conditions'"),
        (page(sections=(Fields((NAME, wrong_column("x"))),)), "table pods has no field 'x'"),
        (
            page(sections=(Related("R", "gangs", "workload", (NAME,)),)),
            "table gangs has no field 'workload'",
        ),
        (
            page(sections=(Entries("E", "node", (NAME,)),)),
            "field 'node' of table pods is no list of records",
        ),
        (
            page(table="nodes", sections=(Entries("E", "devices", (wrong_column("x"),)),)),
            "records of devices have no field 'x': want one of",
        ),
        (
            page(charts=(TimeChart("T", (ChartLine("heat", "Heat"),)),)),
            "unknown series 'heat': want one of",
        ),
        (page(charts=(TimeChart("T", by_key="heat"),)), "unknown series 'heat'"),
        (page(charts=(TimeChart("T"),)), "chart T has no lines: name a series"),
        (page(charts=(Histogram("H", "pods", "heat"),)), "table pods has no field 'heat'"),
        (
            ConsoleContribution(
                component="a", actions=(Action(name="x", table="pods", perform=cook, when="!hot"),)
            ),
            "action x: table pods has no field 'hot'",
        ),
        (
            ConsoleContribution(component="a", search=(SearchTarget("pods", "P", ("{heat}",)),)),
            "search target P: table pods has no field 'heat'",
        ),
        (
            ConsoleContribution(
                component="a", series=(Series(names=("x",), table="podz", measure=lambda _: []),)
            ),
            "series x: unknown table 'podz'",
        ),
    ],
)
async def test_invalid_contribution_is_rejected(
    contribution: ConsoleContribution, problem: str
) -> None:
    with pytest.raises(InvalidContribution) as rejection:
        assemble(contribution)
    assert problem in str(rejection.value)
    assert str(rejection.value).startswith(f"console contribution of {contribution.component}:")


def assemble(contribution: ConsoleContribution) -> Assembly:
    return Assembly((CORE, contribution), DERIVED_TABLES)


def recipe(name: str, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "data": data}


async def test_history_of_a_contributed_series_is_served(client: Client, console: Console) -> None:
    async with http_session(console) as session:
        query = {"name": "portions", "step": "10"}
        async with session.get("/api/series", params=query) as reply:
            history = await reply.json()
        assert history["step"] == 10
        assert list(history["values"]) == ["portions"]
        for query, problem in (
            ({"name": "none", "step": "10"}, "unknown series 'none': want one of gpus, "),
            ({"name": "gpus", "step": "11"}, "step is 11: want one of 10, 60"),
            ({"name": "gpus", "step": "x"}, "want name=SERIES and step=SECONDS"),
            ({"step": "10"}, "want name=SERIES and step=SECONDS"),
        ):
            async with session.get("/api/series", params=query) as reply:
                assert reply.status == 400
                assert problem in (await reply.json())["message"]
