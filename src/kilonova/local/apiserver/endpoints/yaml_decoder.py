"""Decodes the JSON-compatible subset of YAML.

No aliases, only JSON's types, strings as keys. The scanner is libyaml's where PyYAML has it: the
one in Python takes ten seconds for a megabyte, and blocks the event loop.
"""

from typing import TYPE_CHECKING, Any, cast

import yaml
from yaml.composer import Composer
from yaml.constructor import SafeConstructor
from yaml.parser import Parser
from yaml.reader import Reader
from yaml.resolver import Resolver
from yaml.scanner import Scanner

MAX_DEPTH = 200
"""The maximum nesting. Python's stack is exhausted soon after it; reasonable objects are far
below."""

if TYPE_CHECKING or not yaml.__with_libyaml__:

    class _EventParser(Reader, Scanner, Parser):
        """The events of a text, found in Python."""

        def __init__(self, stream: bytes) -> None:
            Reader.__init__(self, stream)
            Scanner.__init__(self)
            Parser.__init__(self)

else:
    from yaml.cyaml import CParser as _EventParser

_TAG = "tag:yaml.org,2002:"
_MAX_DIGITS = 300
_NON_JSON_NUMBERS = frozenset({".nan", ".inf", "+.inf", "-.inf"})


def load_json_compatible(text: bytes) -> tuple[Any, list[str]]:
    """The value of a text, and its duplicate keys. Raises YAMLError or ValueError."""
    loader = _JsonCompatibleLoader(text)
    try:
        value = loader.get_single_data()
    finally:
        loader.dispose()
    return value, loader.duplicates


class _JsonComposer(Composer):
    """Rejects what JSON cannot represent, before any value is built."""

    def __init__(self) -> None:
        super().__init__()
        self._depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        reader = cast(Any, self)
        event = reader.peek_event()
        if isinstance(event, yaml.AliasEvent):
            raise yaml.YAMLError("aliases are not accepted")
        if self._depth > MAX_DEPTH:
            raise yaml.YAMLError("exceeded max depth")
        self._depth += 1
        node: Any = super().compose_node(parent, index)
        self._depth -= 1
        if isinstance(node, yaml.ScalarNode):
            self._check_scalar(node, tagged=event.tag is not None)
        elif node.tag not in (f"{_TAG}map", f"{_TAG}seq"):
            raise yaml.YAMLError(f"{node.tag.removeprefix(_TAG)} is not a type of JSON")
        return node

    def _check_scalar(self, node: yaml.ScalarNode, *, tagged: bool) -> None:
        tag, text = node.tag, str(node.value)
        if tagged and tag != f"{_TAG}str":
            natural = cast(Any, self).resolve(yaml.ScalarNode, text, (True, False))
            if natural != tag:
                raise yaml.YAMLError(f"cannot decode {text!r} as {tag.removeprefix(_TAG)}")
        if tag == f"{_TAG}int" and len(text) > _MAX_DIGITS:
            raise yaml.YAMLError("number out of range")
        if tag == f"{_TAG}float" and text.lower() in _NON_JSON_NUMBERS:
            raise yaml.YAMLError(f"json: unsupported value: {text}")


class _JsonConstructor(SafeConstructor):
    """Builds JSON values, and records duplicate keys."""

    def __init__(self) -> None:
        super().__init__()
        self.duplicates: list[str] = []

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in cast("list[tuple[yaml.Node, yaml.Node]]", node.value):
            if not isinstance(key, yaml.ScalarNode) or key.tag == f"{_TAG}null":
                line = key.start_mark.line + 1
                raise yaml.YAMLError(f"line {line}: only text, numbers and booleans may be keys")
            if key.value in seen:
                line = key.start_mark.line + 1
                self.duplicates.append(f'line {line}: key "{key.value}" already set in map')
            seen.add(key.value)
        made = super().construct_mapping(node, deep)
        return {_key_text(key): value for key, value in made.items()}


def _construct_integer(constructor: Any, node: yaml.ScalarNode) -> int | float:
    value: int = constructor.construct_yaml_int(node)
    return value if -(1 << 63) <= value < 1 << 64 else float(value)


_JsonConstructor.add_constructor(f"{_TAG}int", _construct_integer)


def _key_text(key: Any) -> str:
    if isinstance(key, bool):
        return "true" if key else "false"
    return str(key)


class _JsonResolver(Resolver):
    """YAML's implicit types, except timestamps: those are strings."""


_JsonResolver.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != f"{_TAG}timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


class _JsonCompatibleLoader(_JsonComposer, _EventParser, _JsonConstructor, _JsonResolver):
    def __init__(self, text: bytes) -> None:
        _EventParser.__init__(self, text)
        _JsonComposer.__init__(self)
        _JsonConstructor.__init__(self)
        _JsonResolver.__init__(self)
