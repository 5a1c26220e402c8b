"""The geometry that profiles of a device make."""

from random import Random

from msgspec.structs import replace

from kilonova.gpu.devices.geometries import build_profile, find_geometry, profile_order
from tests.catalog.mig_states import part


def test_profiles_alone_do_not_tell_products_apart() -> None:
    """A100-80GB and H100-80GB have the same names and placements: multiprocessors differ."""
    for name in ("A100-80GB", "H100-80GB", "H200-141GB"):
        assert find_geometry(part(name).profiles, "anything") is part(name)


def test_other_multiprocessors_make_a_geometry_of_the_product() -> None:
    read = [replace(each, sms=each.sms - 2) for each in part("H100-80GB").profiles]
    found = find_geometry(read, "NVIDIA H100 PCIe")
    assert found is not None
    assert (found.name, found.profiles) == ("NVIDIA H100 PCIe", tuple(read))


def test_multiprocessors_that_the_catalog_lacks_are_added() -> None:
    read = [replace(each, sms=20 * each.compute) for each in part("B200-180GB").profiles]
    found = find_geometry(read, "NVIDIA B200")
    assert found is not None
    assert (found.name, found.profiles[0].sms) == ("B200-180GB", 20)


def test_device_without_profiles_has_no_geometry() -> None:
    assert find_geometry([], "NVIDIA L4") is None


def test_profile_is_built_from_its_name_and_placements() -> None:
    profile = build_profile("1g.18gb+me", 1, [(4, 1), (0, 1)], 1, 16)
    assert (profile.memory, profile.extended, profile.starts) == (18, True, (0, 4))


def test_order_is_that_of_the_catalog() -> None:
    for name in ("H200-141GB", "A30-24GB"):
        profiles = list(part(name).profiles)
        Random(3).shuffle(profiles)
        assert sorted(profiles, key=profile_order) == list(part(name).profiles)
