"""The command `kilonova` with the toy component registered."""

from pathlib import Path

from kilonova.component.registry import MODULES_VARIABLE
from tests.cli.command import Kilonova

TOY_MODULE = "tests.component.toy.component"
ROOT = Path(__file__).parents[2]


class ToyKilonova(Kilonova):
    """The command, with the toy component."""

    def environment(self) -> dict[str, str]:
        environment = super().environment()
        environment["PYTHONPATH"] += f":{ROOT}"
        return environment | {MODULES_VARIABLE: TOY_MODULE}
