"""Machine types of the catalog as descriptions of simulated machines. Pure."""

from typing import Any, cast

from kilonova.api.json import JsonObject
from kilonova.api.quantity import parse_quantity
from kilonova.catalog import Catalog, MachineType, load_catalog


class MachineTypeError(Exception):
    """A machine type that the catalog does not have: field, value and fix."""


def is_known_machine_type(name: str) -> bool:
    """Whether the catalog has a machine type."""
    return name in load_catalog().machines


def apply_machine_types(source: Any) -> Any:
    """The content of a fleet file, with what follows from the machine types of its groups.

    What a group specifies itself takes precedence. Content of the wrong shape is returned as it is.
    """
    if not isinstance(source, dict):
        return source
    fields = cast("JsonObject", source)
    groups: Any = fields.get("nodes")
    if not isinstance(groups, list):
        return fields
    entries = cast("list[Any]", groups)
    expanded = [_apply_machine_type(entry, number) for number, entry in enumerate(entries)]
    return {**fields, "nodes": expanded}


def _apply_machine_type(source: Any, number: int) -> Any:
    if not isinstance(source, dict):
        return source
    group = cast("JsonObject", source)
    name: Any = group.get("machine")
    if not isinstance(name, str) or not name:
        return group
    catalog = load_catalog()
    machine = catalog.machines.get(name)
    if machine is None:
        raise MachineTypeError(
            f'nodes[{number}].machine: "{name}" is not a machine type of the catalog: '
            "write one that `kilonova catalog machines` lists"
        )
    return {**_machine_fields(catalog, machine), **group}


def _machine_fields(catalog: Catalog, machine: MachineType) -> JsonObject:
    memory = parse_quantity(f"{round(machine.memory * 1024)}Mi")  # written as the API does: 2Ti
    fields: JsonObject = {"cpu": machine.cpu, "memory": str(memory)}
    model = catalog.find_gpu(machine.gpu) if machine.gpus else None
    if model is not None:
        fields["gpu"] = {
            "model": next(iter(model.products), model.name),
            "count": machine.gpus,
            "memory": f"{model.memory}Mi",
            "nvlink": "rack" if model.nvlink is not None and model.nvlink.domain else "node",
        }
    return fields
