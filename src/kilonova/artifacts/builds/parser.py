"""Reads and writes the data of a build, and validates it. Pure."""

import re
from collections.abc import Iterator

import msgspec

from kilonova.api.inference_engine.templates import MAX_AGENTS
from kilonova.api.quantity import QuantityError, quantity_from_json
from kilonova.artifacts.builds.build import Build, BuildTopology, Partition
from kilonova.artifacts.builds.errors import InvalidBuild
from kilonova.yaml_files import describe_mismatch

MAX_BUILD_BYTES = 4 * 1024 * 1024
"""Larger files are not builds."""

_MAX_ACCELERATORS = 1024
_ID = re.compile(r"[A-Za-z0-9]([\w.-]{0,126}[A-Za-z0-9])?", re.ASCII)
_DNS_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)
_QUALIFIED_NAME = re.compile(
    r"(?P<domain>[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([\w.-]{0,61}[A-Za-z0-9])?",
    re.ASCII,
)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


def parse_build(content: bytes, where: str = "build", *, build_id: str = "") -> Build:
    """The build in a file; `InvalidBuild` with the first field that is wrong.

    With `build_id`, the build must be the one that was asked for.
    """
    if len(content) > MAX_BUILD_BYTES:
        problem = f"it has {len(content)} bytes, more than the {MAX_BUILD_BYTES} of a build"
        raise InvalidBuild(where, problem, "publish the JSON file of the build")
    try:
        source = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidBuild(where, f"it is not JSON: {error}", "publish it again") from None
    try:
        build = msgspec.convert(source, Build)
    except msgspec.ValidationError as error:
        found = describe_mismatch(source, Build, error)
        raise InvalidBuild(f"{where}: {found.field}", found.problem, found.fix) from None
    for field, problem, fix in _find_problems(build):
        raise InvalidBuild(f"{where}: {field}", problem, fix)
    if build_id and build.id != build_id:
        fix = f"publish it as {build.id}, or correct its id"
        raise InvalidBuild(f"{where}: id", f"{build.id!r} is not {build_id!r}", fix)
    return build


def encode_build(build: Build) -> bytes:
    """The file of a build: the same bytes for equal builds."""
    return msgspec.json.format(msgspec.json.encode(build, order="sorted"), indent=2) + b"\n"


def check_build_id(build_id: str, where: str = "build") -> None:
    """Raise `InvalidBuild` for what cannot be the id of a build, in a source of any kind."""
    if not is_build_id(build_id):
        problem = f"{build_id[:60]!r} is not the id of a build"
        fix = "use letters, digits, '-', '_' and '.' (at most 128), such as llama32-90b-v7"
        raise InvalidBuild(where, problem, fix)


def is_build_id(text: str) -> bool:
    """Whether it can be the name of a file, the key of an object, and a tag."""
    return _ID.fullmatch(text) is not None and ".." not in text


_Problem = tuple[str, str, str]


def _find_problems(build: Build) -> Iterator[_Problem]:
    """Field, problem and fix of everything that is wrong."""
    if not is_build_id(build.id):
        yield "id", f"{build.id[:60]!r} is not an id", "use letters, digits, '-', '_' and '.'"
    if not 1 <= len(build.model) <= 253:
        yield "model", f"it has {len(build.model)} characters", "use 1 to 253"
    if not 1 <= build.agents <= MAX_AGENTS:
        yield "agents", f"{build.agents} is out of range", f"use 1 to {MAX_AGENTS}"
    yield from _find_accelerator_problems(build)
    yield from _find_topology_problems("topology", build.topology)
    yield from _find_partition_problems(build.partitions, build.agents)
    for name in build.config:
        if not _VARIABLE.fullmatch(name):
            fix = "use letters, digits and '_', not a digit first"
            yield "config", f"{name!r} is not the name of an environment variable", fix


def _find_accelerator_problems(build: Build) -> Iterator[_Problem]:
    given = build.accelerator
    found = _QUALIFIED_NAME.fullmatch(given.resource)
    if not found or not found["domain"] or found["domain"].endswith("kubernetes.io/"):
        problem = f"{given.resource!r} is not the name of an extended resource"
        yield "accelerator.resource", problem, "use DOMAIN/NAME, such as nvidia.com/gpu"
    if not 0 <= given.count <= _MAX_ACCELERATORS:
        problem = f"{given.count} is out of range"
        yield "accelerator.count", problem, f"use 0 to {_MAX_ACCELERATORS}"
    if given.memory is not None:
        try:
            is_positive = quantity_from_json(given.memory).nano > 0
        except QuantityError:
            is_positive = False
        if not is_positive:
            problem = f"{given.memory!r} is not an amount of memory"
            yield "accelerator.memory", problem, "use a quantity above 0, such as 80Gi"


def _find_topology_problems(field: str, topology: BuildTopology) -> Iterator[_Problem]:
    for name, level in (("required", topology.required), ("preferred", topology.preferred)):
        if level is not None and not _QUALIFIED_NAME.fullmatch(level):
            fix = "use the key of a node label, such as topology.kubernetes.io/zone"
            yield f"{field}.{name}", f"{level!r} is not the key of a label", fix


def _find_partition_problems(partitions: tuple[Partition, ...], agents: int) -> Iterator[_Problem]:
    names: set[str] = set()
    for number, each in enumerate(partitions):
        field = f"partitions[{number}]"
        if not _DNS_LABEL.fullmatch(each.name):
            fix = "use lower-case letters, digits and '-', at most 63"
            yield f"{field}.name", f"{each.name!r} is not the name of a partition", fix
        if each.name in names:
            yield f"{field}.name", f"{each.name!r} is used twice", "give each partition its own"
        names.add(each.name)
        if each.agents < 1:
            yield f"{field}.agents", f"{each.agents} is out of range", "use at least 1"
        yield from _find_topology_problems(f"{field}.topology", each.topology)
    total = sum(each.agents for each in partitions)
    if partitions and total != agents:
        problem = f"their agents are {total} together, and the build has {agents}"
        yield "partitions", problem, "correct agents, here or there"
