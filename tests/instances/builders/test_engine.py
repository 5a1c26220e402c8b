"""What an instance needs: of its spec, else of its build, else by default."""

from typing import Any

import msgspec
import pytest

from kilonova.api.inference_engine import EngineSpec
from kilonova.artifacts.builds import Build, BuildAccelerator, BuildTopology
from kilonova.instances.builders.engine import InvalidSpec, resolve_engine

BUILD = Build(
    id="llama32-90b-v7",
    model="llama32-90b",
    agents=108,
    accelerator=BuildAccelerator("groq.com/lpu", 8, "16Gi"),
    topology=BuildTopology(required="kilonova.dev/rack"),
    image="of-build",
    config={"batch": "8", "depth": "2"},
)


def spec(**fields: Any) -> EngineSpec:
    return msgspec.convert({"model": "llama32-90b", **fields}, EngineSpec)


@pytest.mark.parametrize(
    ("fields", "build", "expected"),
    [
        ({"targetAgents": 2}, None, (2, "nvidia.com/gpu", 1, None, "", "")),
        ({}, BUILD, (108, "groq.com/lpu", 8, "16Gi", "kilonova.dev/rack", "")),
        ({"targetAgents": 4}, BUILD, (4, "groq.com/lpu", 8, "16Gi", "kilonova.dev/rack", "")),
        (
            {"accelerator": {"resource": "amd.com/gpu", "count": 0, "memory": "1Gi"}},
            BUILD,
            (108, "amd.com/gpu", 0, "1Gi", "kilonova.dev/rack", ""),
        ),
        (
            {"topology": {"preferred": "zone"}},
            BUILD,
            (108, "groq.com/lpu", 8, "16Gi", "", "zone"),
        ),
    ],
    ids=["default", "build", "agents", "accelerator", "topology"],
)
def test_spec_takes_precedence_over_the_build(
    fields: Any, build: Build | None, expected: tuple[Any, ...]
) -> None:
    found = resolve_engine(spec(**fields), build)
    actual = (found.agents, found.resource, found.count, found.memory)
    assert (*actual, found.required, found.preferred) == expected


def test_image_and_configuration_are_merged() -> None:
    found = resolve_engine(spec(image="own", config={"depth": "3"}), BUILD)
    assert (found.image, found.config) == ("own", {"batch": "8", "depth": "3"})


def test_number_of_agents_must_be_known() -> None:
    with pytest.raises(
        InvalidSpec, match=r"spec\.targetAgents: is missing: set it, or name a build"
    ):
        resolve_engine(spec())
