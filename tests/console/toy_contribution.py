"""A component outside of the tree that contributes to the console: ConfigMaps as recipes.

`python -m tests.console.toy_contribution --kubeconfig FILE` serves a console with it, and prints
its link.
"""

import argparse
import asyncio
from collections.abc import Mapping
from pathlib import Path

import msgspec

from kilonova.api.gpu.metrics import GpuReading
from kilonova.component.console import (
    Action,
    ActionRejected,
    ActionRequest,
    ChartLine,
    Charts,
    Column,
    ConsoleContribution,
    Entries,
    Events,
    Fields,
    GpuMetricsSource,
    Histogram,
    LiveObject,
    Measurement,
    Page,
    Related,
    Row,
    SearchTarget,
    Series,
    Table,
    TimeChart,
    ValueInput,
)
from kilonova.console import ConsoleSettings, build_console
from kilonova.kube import Client, Manager, Resource, connect

TOKEN = "a-token-for-the-tests"


class RecipeMeta(msgspec.Struct, rename="camel", kw_only=True):
    name: str
    namespace: str = ""
    resource_version: str = ""


class Recipe(msgspec.Struct):
    metadata: RecipeMeta
    data: dict[str, str] = {}


class Ingredient(msgspec.Struct, frozen=True, gc=False, rename="camel", kw_only=True):
    """What goes into a recipe, and where to read about it."""

    name: str
    amount: int
    source: str = ""


class RecipeRow(Row, frozen=True, gc=False, kw_only=True):
    """A recipe. Its id is `namespace/name`."""

    state: str
    portions: int = 0
    node: str = ""
    share: float = 0.0
    cooked: bool = False
    ingredients: tuple[Ingredient, ...] = ()


RECIPES = Resource("", "v1", "configmaps", "ConfigMap", True, Recipe)


def recipe_row(recipe: Recipe) -> RecipeRow:
    """The row of a recipe."""
    metadata, data = recipe.metadata, recipe.data
    portions = int(data.get("portions", "0"))
    return RecipeRow(
        id=f"{metadata.namespace}/{metadata.name}",
        state=data.get("state", "Planned"),
        portions=portions,
        node=data.get("node", ""),
        share=portions / 10,
        cooked=data.get("state") == "Cooked",
        ingredients=msgspec.json.decode(data.get("ingredients", "[]"), type=tuple[Ingredient, ...]),
    )


def measure_portions(recipe: Recipe) -> list[Measurement]:
    """For all recipes together, and for each."""
    row = recipe_row(recipe)
    return [Measurement("portions", row.portions), Measurement("portions", row.portions, row.id)]


async def cook(request: ActionRequest) -> str:
    """Mark a recipe as cooked."""
    if request.value > 100:
        raise ActionRejected(f"{request.value} portions do not fit into the pot")
    data = {"state": "Cooked", "portions": str(request.value)}
    await request.client.patch(request.resource, request.name, {"data": data}, request.namespace)
    return f"{request.target} cooked for {request.value}"


NAME = Column(field="name", title="Name", width="30%")


async def read_gpus(_: Client) -> Mapping[str, tuple[GpuReading, ...]]:
    """The metrics of one GPU."""
    return {"h100-0": (GpuReading(0, 0.83, 40_960, 512.0, 61.0),)}


STATE = Column(
    field="state",
    title="State",
    format="state",
    tones={"Cooked": "good", "Planned": "wait", "Burnt": "bad"},
    filter=True,
    width="120px",
)
PORTIONS = Column(field="portions", title="Portions", format="number", width="90px")
NODE = Column(field="node", title="Node", link="nodes", shown="wide")
OVER_TIME = TimeChart("Portions", (ChartLine("portions", "Portions"),), style="area")

CONTRIBUTION = ConsoleContribution(
    component="kitchen",
    tables=(Table("recipes", RECIPES, recipe_row),),
    pages=(
        Page(
            path="/recipes",
            title="Recipes",
            key="r",
            table="recipes",
            columns=(
                NAME,
                STATE,
                PORTIONS,
                Column(field="share", title="Full", format="meter", width="140px", shown="full"),
                NODE,
            ),
            charts=(OVER_TIME, Histogram("Portions per recipe", "recipes", "portions")),
            sections=(
                Fields((PORTIONS, NODE, Column(field="cooked", title="Cooked", format="flag"))),
                Entries(
                    "Ingredients",
                    "ingredients",
                    (
                        Column(field="name", title="Name"),
                        Column(field="amount", title="Amount", format="number"),
                        Column(field="source", title="Source", format="url"),
                    ),
                ),
                Related("Same state", "recipes", "state", (NAME, PORTIONS), equals="state"),
                Charts((OVER_TIME,)),
                Events(),
                LiveObject(),
            ),
            state=STATE,
            sort="-portions",
            empty="Create a ConfigMap.",
        ),
    ),
    sections={"nodes": (Related("Recipes", "recipes", "node", (NAME, PORTIONS)),)},
    actions=(
        Action(
            name="cook",
            table="recipes",
            perform=cook,
            title="Cook",
            text="The recipe is cooked.",
            when="!cooked",
            value=ValueInput("Portions", field="portions", minimum=1),
        ),
    ),
    search=(SearchTarget("recipes", "Recipe", ("{state}", "on {node}")),),
    gpu_metrics=GpuMetricsSource("kitchen", read_gpus),
    series=(Series(names=("portions",), table="recipes", measure=measure_portions),),
)


async def serve_console(kubeconfig: Path) -> None:
    """Serve a console with this contribution until stopped."""
    async with connect(kubeconfig) as client:
        settings = ConsoleSettings(token=TOKEN, cluster="toy", allow_actions=True)
        console = build_console(client, settings, contributions=(CONTRIBUTION,))
        console.bind()
        print(console.link, flush=True)
        manager = Manager()
        manager.add(*console.runnables)
        await manager.run()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--kubeconfig", type=Path, required=True)
    asyncio.run(serve_console(parser.parse_args().kubeconfig))
