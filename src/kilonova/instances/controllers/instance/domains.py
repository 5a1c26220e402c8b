"""Where agents are in the topology. Pure."""

from collections.abc import Iterable, Sequence

from kilonova.instances.resources import Node


def find_path(node: Node | None, levels: Sequence[str]) -> tuple[str, ...]:
    """The domain of a node at each level, broadest first; empty where it has none."""
    labels = {} if node is None else node.metadata.labels
    return tuple(labels.get(level, "") for level in levels)


def format_path(path: Iterable[str]) -> str:
    """A path as it is reported: `zone-a/block-1/rack-2`."""
    return "/".join(filter(None, path))


def find_common_path(paths: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    """The path of the smallest domain that has all of them."""
    common: tuple[str, ...] | None = None
    for path in set(paths):
        common = path if common is None else _get_common(common, path)
    return common or ()


def _get_common(one: tuple[str, ...], other: tuple[str, ...]) -> tuple[str, ...]:
    for index, (mine, theirs) in enumerate(zip(one, other, strict=False)):
        if mine != theirs:
            return one[:index]
    return one
