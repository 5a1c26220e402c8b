"""The names of what instances consist of."""

from collections.abc import Callable
from itertools import product

import pytest

from kilonova.api.inference_engine import names


@pytest.mark.parametrize("build", [names.gang, names.join_service, names.reservation])
def test_objects_of_different_instances_have_different_names(
    build: Callable[[str, int], str],
) -> None:
    """Also where one instance is called as another with a number."""
    instances = ("llama", "llama-1", "llama-1-1", "llama-11", "1-llama", "1")
    allocations = (0, 1, 11)
    built = {build(*each) for each in product(instances, allocations)}
    assert len(built) == len(instances) * len(allocations)


def test_first_allocation_has_the_name_of_the_instance() -> None:
    assert names.gang("llama", 0) == names.service("llama") == "iei-llama"
    assert names.gang("llama", 1) == names.reservation("llama", 1) == "iei1-llama"
