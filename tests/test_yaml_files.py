"""What is wrong in a YAML file, in its own terms."""

from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
import pytest
import yaml
from msgspec import Meta

from kilonova.yaml_files import YamlFileError, describe_mismatch, read_yaml


class Wheel(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    size: Annotated[int, Meta(ge=1)]
    tyre_kind: Literal["", "summer", "winter"] = ""


class Car(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    wheels: tuple[Wheel, ...] = ()
    spare: Wheel | None = None
    doors: dict[str, Wheel] = {}
    range: tuple[int, int] = (0, 0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "the file: its content is invalid: write fields with values: { … }"),
        ("{}", "name: is missing: it is required"),
        ("{name: 1}", "name: 1 is invalid: write text, in quotes"),
        ("{name: a, colour: red}", "colour: unknown field: choose from name, wheels, spare"),
        ("{name: a, wheels: {}}", "wheels: an object is invalid: write a list: [ … ]"),
        ("{name: a, wheels: [{}]}", "wheels[0].size: is missing"),
        ("{name: a, wheels: [{size: 0}]}", "wheels[0].size: 0 is invalid: write a whole number >="),
        (
            "{name: a, spare: {size: 1, width: 2}}",
            "spare.width: unknown field: choose from size, tyreKind",
        ),
        (
            "{name: a, spare: {size: 1, tyreKind: bald}}",
            "spare.tyreKind: 'bald' is invalid: choose from summer, winter",
        ),
        ("{name: a, doors: {left: {size: x}}}", "doors[...].size: an object is invalid: write a w"),
        ("{name: a, range: [1]}", "range: a list is invalid: write a list: [ … ] of length 2"),
        ("{name: a, range: [1, x]}", "range[1]: 'x' is invalid: write a whole number"),
        (f"{{name: a, spare: {'x' * 99}}}", "spare: a long text is invalid: write fields with"),
    ],
)
def test_mismatch_names_field_value_and_fix(text: str, message: str) -> None:
    source: Any = yaml.safe_load(text)
    with pytest.raises(msgspec.ValidationError) as raised:
        msgspec.convert(source, Car)
    assert str(describe_mismatch(source, Car, raised.value)).startswith(message)


def test_mismatch_within_a_larger_file_has_its_place() -> None:
    with pytest.raises(msgspec.ValidationError) as raised:
        msgspec.convert({"size": 0}, Wheel)
    found = describe_mismatch({"size": 0}, Wheel, raised.value, "cars[3].spare")
    assert (found.field, found.bound) == ("cars[3].spare.size", ">= 1")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a: [1", "is not YAML: expected ',' or ']', but got '<stream end>' in line 1"),
        (b"a: \xff", "is not YAML: invalid start byte"),
        (b"[" * 100_000, "is not YAML: it is nested too deeply"),
        (b"a: !!python/object:os.system {}", "is not YAML: could not determine a constructor"),
        (None, "cannot be read: No such file or directory"),
    ],
)
def test_unreadable_file_is_named(tmp_path: Path, content: bytes | None, message: str) -> None:
    path = tmp_path / "file.yaml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(YamlFileError) as raised:
        read_yaml(path)
    assert str(raised.value).startswith(f"{path} {message}")


def test_empty_file_has_no_content(tmp_path: Path) -> None:
    (tmp_path / "empty.yaml").touch()
    assert read_yaml(tmp_path / "empty.yaml") is None
