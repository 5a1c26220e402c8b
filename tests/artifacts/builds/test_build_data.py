"""The data of a build: what is valid, and how every mistake is said."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kilonova.artifacts.builds import (
    Build,
    BuildAccelerator,
    BuildTopology,
    InvalidBuild,
    Partition,
    encode_build,
    parse_build,
)

VALID: dict[str, Any] = {
    "id": "llama32-90b-v7",
    "model": "llama32-90b",
    "agents": 108,
    "accelerator": {"resource": "groq.com/lpu", "count": 8, "memory": "230Mi"},
    "topology": {"required": "topology.kubernetes.io/zone", "preferred": "kilonova.dev/block"},
    "partitions": [
        {"name": "attention", "agents": 72, "topology": {"required": "kilonova.dev/rack"}},
        {"name": "experts", "agents": 36},
    ],
    "image": "registry.example.com/engine:1",
    "config": {"MAX_TOKENS": "8192"},
    "annotations": {"compiler": "2.1"},
}


def test_build_says_what_an_instance_needs() -> None:
    build = parse_build(msgspec.json.encode(VALID))
    assert (build.id, build.model, build.agents) == ("llama32-90b-v7", "llama32-90b", 108)
    assert build.accelerator == BuildAccelerator("groq.com/lpu", 8, "230Mi")
    assert build.accelerators == 864
    assert build.topology.required == "topology.kubernetes.io/zone"
    assert [each.agents for each in build.partitions] == [72, 36]


def test_agents_have_one_gpu_each_unless_the_build_says_otherwise() -> None:
    build = parse_build(b'{"id": "a", "model": "m", "agents": 4}')
    assert build.accelerator == BuildAccelerator("nvidia.com/gpu", 1)
    assert build.topology == BuildTopology()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"agents": None}, "agents: None is invalid; write a whole number"),
        ({"agents": "4"}, "agents: '4' is invalid; write a whole number"),
        ({"agents": 0, "partitions": []}, "agents: 0 is out of range; use 1 to 10000"),
        ({"agents": 20_000, "partitions": []}, "agents: 20000 is out of range"),
        ({"model": ""}, "model: it has 0 characters; use 1 to 253"),
        ({"id": "../a"}, "id: '../a' is not an id; use letters, digits"),
        ({"id": "a..b"}, "id: 'a..b' is not an id"),
        ({"id": ".a"}, "id: '.a' is not an id"),
        ({"partition": []}, "partition: unknown field; choose from id, model, agents"),
        (
            {"accelerator": {"cuont": 4}},
            "accelerator.cuont: unknown field; choose from resource, count, memory",
        ),
        (
            {"accelerator": {"resource": "gpu"}},
            "accelerator.resource: 'gpu' is not the name of an extended resource; use DOMAIN/NAME",
        ),
        (
            {"accelerator": {"resource": "cpu"}},
            "accelerator.resource: 'cpu' is not the name of an extended resource",
        ),
        ({"accelerator": {"resource": "a/b/c"}}, "accelerator.resource: 'a/b/c' is not"),
        ({"accelerator": {"count": -1}}, "accelerator.count: -1 is out of range; use 0 to 1024"),
        ({"accelerator": {"memory": "80GB"}}, "accelerator.memory: '80GB' is not an amount"),
        ({"accelerator": {"memory": 0}}, "accelerator.memory: 0 is not an amount of memory"),
        (
            {"topology": {"required": "a rack"}},
            "topology.required: 'a rack' is not the key of a label",
        ),
        (
            {"partitions": [{"name": "a", "agents": 100}]},
            "partitions: their agents are 100 together, and the build has 108",
        ),
        (
            {"partitions": [{"name": "a", "agents": 54}, {"name": "a", "agents": 54}]},
            r"partitions\[1\].name: 'a' is used twice",
        ),
        (
            {"partitions": [{"name": "a", "agents": 108}, {"name": "b", "agents": 0}]},
            r"partitions\[1\].agents: 0 is out of range; use at least 1",
        ),
        (
            {"partitions": [{"name": "A b", "agents": 108}]},
            r"partitions\[0\].name: 'A b' is not the name of a partition",
        ),
        (
            {"partitions": [{"name": "a", "agents": 108, "topology": {"required": ""}}]},
            r"partitions\[0\].topology.required: '' is not the key",
        ),
        ({"config": {"1A": "x"}}, "config: '1A' is not the name of an environment variable"),
    ],
)
def test_invalid_field_is_named_with_its_fix(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidBuild, match=f"^builds/a: {message}"):
        parse_build(msgspec.json.encode({**VALID, **change}), "builds/a")


@pytest.mark.parametrize("field", ["id", "model", "agents"])
def test_missing_field_is_named(field: str) -> None:
    given = {name: value for name, value in VALID.items() if name != field}
    with pytest.raises(InvalidBuild, match=f"{field}: is missing; it is required"):
        parse_build(msgspec.json.encode(given))


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b'"text"', b"[]", b"{} {}"])
def test_other_file_is_rejected(content: bytes) -> None:
    with pytest.raises(InvalidBuild):
        parse_build(content)


def test_build_of_another_id_is_rejected() -> None:
    with pytest.raises(InvalidBuild, match="'llama32-90b-v7' is not 'v8'; publish it as"):
        parse_build(msgspec.json.encode(VALID), build_id="v8")


def test_huge_file_is_rejected() -> None:
    with pytest.raises(InvalidBuild, match="more than the 4194304 of a build"):
        parse_build(b" " * 5_000_000)


levels = st.none() | st.sampled_from(["topology.kubernetes.io/zone", "rack", "kilonova.dev/block"])
topologies = st.builds(BuildTopology, levels, levels)


@st.composite
def builds(draw: st.DrawFn) -> Build:
    sizes = draw(st.lists(st.integers(1, 50), max_size=4))
    return Build(
        id=draw(st.from_regex(r"[a-z][a-z0-9-]{0,20}[a-z0-9]", fullmatch=True)),
        model=draw(st.text(min_size=1, max_size=20)),
        agents=sum(sizes) or draw(st.integers(1, 10_000)),
        accelerator=BuildAccelerator(
            draw(st.sampled_from(["nvidia.com/gpu", "groq.com/lpu"])),
            draw(st.integers(0, 1024)),
            draw(st.none() | st.integers(1, 2**40) | st.sampled_from(["80Gi", "1.5Ti"])),
        ),
        topology=draw(topologies),
        partitions=tuple(
            Partition(f"p{number}", size, draw(topologies)) for number, size in enumerate(sizes)
        ),
        config=draw(st.dictionaries(st.sampled_from(["A", "B_1"]), st.text(max_size=5))),
    )


@given(builds())
def test_file_of_a_build_is_that_build(build: Build) -> None:
    assert parse_build(encode_build(build), build_id=build.id) == build
    assert encode_build(build) == encode_build(parse_build(encode_build(build)))


@given(builds(), st.data())
def test_truncated_file_is_rejected(build: Build, data: st.DataObject) -> None:
    content = encode_build(build).rstrip()
    length = data.draw(st.integers(0, len(content) - 1))
    with pytest.raises(InvalidBuild):
        parse_build(content[:length])
