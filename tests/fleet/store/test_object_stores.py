"""ConfigMaps, and three stores as one: what every object store does, they do."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from kilonova.fleet.store.config_maps import ConfigMapStore
from kilonova.fleet.store.quorum import QuorumStore
from kilonova.objectstore import DirectoryStore, ObjectStore
from tests.conftest import create_namespace
from tests.objectstore.conftest import Stores
from tests.objectstore.test_store import (
    test_deleted_object_is_gone_and_its_key_free,
    test_empty_object_is_an_object,
    test_get_does_not_read_more_than_expected,
    test_invalid_key_is_rejected,
    test_invalid_prefix_is_rejected,
    test_missing_object_is_not_found,
    test_no_increment_of_a_counter_is_lost,
    test_object_is_created_once,
    test_object_is_read_as_written,
    test_object_is_replaced_as_a_whole,
    test_objects_are_listed_in_order_by_prefix_and_page,
    test_one_of_many_writers_creates_an_object,
    test_only_the_version_that_was_read_is_replaced,
    test_reader_keeps_the_version_that_it_opened,
    test_small_stream_is_written,
)

SMALL_OBJECTS = (
    test_deleted_object_is_gone_and_its_key_free,
    test_empty_object_is_an_object,
    test_get_does_not_read_more_than_expected,
    test_invalid_key_is_rejected,
    test_invalid_prefix_is_rejected,
    test_missing_object_is_not_found,
    test_no_increment_of_a_counter_is_lost,
    test_object_is_created_once,
    test_object_is_read_as_written,
    test_object_is_replaced_as_a_whole,
    test_objects_are_listed_in_order_by_prefix_and_page,
    test_one_of_many_writers_creates_an_object,
    test_only_the_version_that_was_read_is_replaced,
    test_reader_keeps_the_version_that_it_opened,
    test_small_stream_is_written,
)
"""All but those with large objects, which are no documents."""


@pytest.fixture(
    params=[
        "quorum",
        "embedded_server",
        pytest.param("control_plane", marks=pytest.mark.real_parts),
    ]
)
async def stores(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[Stores]:
    """Each kind in turn."""
    if request.param == "quorum":

        def connect() -> ObjectStore:
            one, two, three = (DirectoryStore(tmp_path / name) for name in "abc")
            return QuorumStore((one, two, three))

        stores = Stores(connect)
    else:
        access = request.getfixturevalue(request.param).access
        api = create_namespace(request.param, access)
        stores = Stores(lambda: ConfigMapStore(api.client(), api.namespace, "kubernetes://test"))
    yield stores
    for each in stores.connected:
        await each.close()


@pytest.fixture
def store(stores: Stores) -> ObjectStore:
    """One client."""
    return stores.open()
