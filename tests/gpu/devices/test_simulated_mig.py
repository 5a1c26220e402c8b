"""MIG on simulated GPUs: what the driver would refuse is refused, and the rest takes time."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kilonova.gpu.devices.errors import GpuError, GpuErrorKind
from kilonova.gpu.devices.model import PathKind
from kilonova.gpu.devices.simulated import MigDurations, ProcessLoad, SimulatedBackend
from tests.catalog.mig_states import part
from tests.gpu.devices.machines import FakeTime, first_uuid, simulate
from tests.harness.campaigns import limit_examples


def enabled(persona: str = "h100:1") -> tuple[SimulatedBackend, str]:
    backend = simulate(persona)
    uuid = first_uuid(backend)
    backend.set_mig_mode(uuid, True)
    return backend, uuid


def kind_of(error: pytest.ExceptionInfo[GpuError]) -> GpuErrorKind:
    return error.value.kind


def test_hopper_enables_mig_at_once() -> None:
    backend, uuid = enabled()
    device = backend.read_inventory().find(uuid)
    assert device is not None
    assert device.mig_enabled
    assert device.mig_pending is None


def test_ampere_enables_mig_by_a_reset() -> None:
    backend = simulate("a100-80:1")
    uuid = first_uuid(backend)
    with pytest.raises(GpuError, match="pending until a reset") as error:
        backend.set_mig_mode(uuid, True)
    assert kind_of(error) is GpuErrorKind.RESET_REQUIRED
    device = backend.read_inventory().devices[0]
    assert (device.mig_enabled, device.mig_pending) == (False, True)
    backend.reset(uuid)
    device = backend.read_inventory().devices[0]
    assert (device.mig_enabled, device.mig_pending) == (True, None)


def test_pending_mode_can_be_taken_back() -> None:
    backend = simulate("a100-80:1")
    uuid = first_uuid(backend)
    with pytest.raises(GpuError):
        backend.set_mig_mode(uuid, True)
    backend.set_mig_mode(uuid, False)
    assert backend.read_inventory().devices[0].mig_pending is None


def test_instance_has_ids_slices_and_resources() -> None:
    backend, uuid = enabled("h200:1")
    created = backend.create_instance(uuid, "3g.71gb", 4)
    assert (created.profile, created.start, created.slices, created.sms) == ("3g.71gb", 4, 4, 60)
    assert created.memory_mib == 143771 // 2
    assert created.uuid.startswith("MIG-")
    assert backend.read_inventory().devices[0].instances == (created,)


def test_same_placement_gets_the_same_uuid_again() -> None:
    backend, uuid = enabled()
    first = backend.create_instance(uuid, "1g.10gb", 3)
    backend.destroy_instance(uuid, first.uuid)
    assert backend.create_instance(uuid, "1g.10gb", 3).uuid == first.uuid


@pytest.mark.parametrize(
    ("profile", "start", "kind", "message"),
    [
        ("5g.50gb", 0, GpuErrorKind.INVALID_REQUEST, "no profile 5g.50gb, but 1g.10gb"),
        ("2g.20gb", 1, GpuErrorKind.INVALID_REQUEST, "2g.20gb starts at 0, 2, 4, not 1"),
        ("7g.80gb", 0, GpuErrorKind.INSUFFICIENT_RESOURCES, "no free slices for 7g.80gb at 0"),
        ("1g.10gb", 5, GpuErrorKind.INSUFFICIENT_RESOURCES, "no free slices"),
        ("1g.10gb+me", 1, GpuErrorKind.INSUFFICIENT_RESOURCES, "no free slices"),
    ],
)
def test_impossible_instance_is_refused(
    profile: str, start: int, kind: GpuErrorKind, message: str
) -> None:
    backend, uuid = enabled()
    backend.create_instance(uuid, "3g.40gb", 4)
    backend.create_instance(uuid, "1g.10gb+me", 0)
    before = backend.read_inventory()
    with pytest.raises(GpuError, match=message) as error:
        backend.create_instance(uuid, profile, start)
    assert kind_of(error) is kind
    assert backend.read_inventory() == before


def test_instance_needs_mig_mode() -> None:
    backend = simulate()
    with pytest.raises(GpuError, match="MIG mode is disabled") as error:
        backend.create_instance(first_uuid(backend), "1g.10gb", 0)
    assert kind_of(error) is GpuErrorKind.NOT_SUPPORTED


def test_device_without_mig_refuses_the_mode() -> None:
    backend = simulate("l40s:1")
    with pytest.raises(GpuError) as error:
        backend.set_mig_mode(first_uuid(backend), True)
    assert kind_of(error) is GpuErrorKind.NOT_SUPPORTED


def test_used_instance_is_not_destroyed_and_free_sibling_is() -> None:
    backend, uuid = enabled()
    used = backend.create_instance(uuid, "1g.10gb", 0)
    free = backend.create_instance(uuid, "1g.10gb", 1)
    backend.set_load(used.uuid, ProcessLoad(41, 0.5))
    with pytest.raises(GpuError, match="processes 41") as error:
        backend.destroy_instance(uuid, used.uuid)
    assert kind_of(error) is GpuErrorKind.IN_USE
    backend.destroy_instance(uuid, free.uuid)
    assert backend.read_inventory().devices[0].instances == (used,)


def test_destroyed_instance_is_not_found() -> None:
    backend, uuid = enabled()
    instance = backend.create_instance(uuid, "1g.10gb", 0)
    backend.destroy_instance(uuid, instance.uuid)
    with pytest.raises(GpuError) as error:
        backend.destroy_instance(uuid, instance.uuid)
    assert kind_of(error) is GpuErrorKind.NOT_FOUND


def test_mode_is_not_switched_in_use() -> None:
    backend = simulate()
    uuid = first_uuid(backend)
    backend.set_load(uuid, ProcessLoad(7, 0.1))
    with pytest.raises(GpuError) as error:
        backend.set_mig_mode(uuid, True)
    assert kind_of(error) is GpuErrorKind.IN_USE
    backend.set_load(uuid)
    backend.set_mig_mode(uuid, True)
    backend.create_instance(uuid, "1g.10gb", 0)
    with pytest.raises(GpuError, match="1 instances exist") as error:
        backend.set_mig_mode(uuid, False)
    assert kind_of(error) is GpuErrorKind.IN_USE


def test_process_runs_on_instances_alone_in_mig_mode() -> None:
    backend, uuid = enabled()
    with pytest.raises(GpuError, match="processes run on instances"):
        backend.set_load(uuid, ProcessLoad(7))


def test_partial_instance_occupies_slices_until_destroyed() -> None:
    backend, uuid = enabled()
    left = backend.leave_partial_instance(uuid, "4g.40gb", 0)
    assert left.is_partial
    with pytest.raises(GpuError, match="no free slices"):
        backend.create_instance(uuid, "1g.10gb", 2)
    with pytest.raises(GpuError, match="no compute instance"):
        backend.set_load(left.uuid, ProcessLoad(7))
    backend.destroy_instance(uuid, left.uuid)
    backend.create_instance(uuid, "1g.10gb", 2)


def test_changes_take_time() -> None:
    time = FakeTime()
    backend = simulate(time=time, durations=MigDurations(set_mode=3, create=0.5, destroy=0.25))
    uuid, start = first_uuid(backend), time.now()
    backend.set_mig_mode(uuid, True)
    instance = backend.create_instance(uuid, "1g.10gb", 0)
    backend.destroy_instance(uuid, instance.uuid)
    assert time.now() - start == 3.75


def test_device_lost_during_creation_gets_no_instance() -> None:
    backend, uuid = enabled()
    backend._durations = MigDurations(create=1)
    backend._sleep = lambda _: backend.lose(uuid)
    with pytest.raises(GpuError) as error:
        backend.create_instance(uuid, "1g.10gb", 0)
    assert kind_of(error) is GpuErrorKind.DEVICE_LOST
    assert not backend.read_inventory().devices[0].instances


@pytest.mark.parametrize(("persona", "survives"), [("a100-80:1", True), ("h100:1", False)])
def test_reboot_keeps_mode_on_ampere_and_instances_never(persona: str, survives: bool) -> None:
    backend = simulate(persona)
    uuid = first_uuid(backend)
    try:
        backend.set_mig_mode(uuid, True)
    except GpuError:
        backend.reset(uuid)
    profile = backend.read_inventory().devices[0].geometry
    assert profile is not None
    backend.create_instance(uuid, profile.profiles[0].name, 0)
    backend.reboot()
    device = backend.read_inventory().devices[0]
    assert device.mig_enabled is survives
    assert device.instances == ()


def test_mig_mode_takes_the_nvlinks_away() -> None:
    backend = simulate("h100:2")
    paths = simulate("h100:8").read_inventory().paths
    assert {(path.kind, path.nvlinks, path.bandwidth) for path in paths} == {
        (PathKind.NVLINK, 18, 900)
    }
    backend.set_mig_mode(first_uuid(backend), True)
    assert backend.read_inventory().paths[0].kind is PathKind.PCIE_SWITCH


@settings(max_examples=limit_examples(200), deadline=None)
@given(st.data())
def test_random_changes_agree_with_the_geometry(data: st.DataObject) -> None:
    """Whatever is created and destroyed: no slice is used twice, and the device accepts exactly
    what the geometry of the catalog allows."""
    name, persona = data.draw(
        st.sampled_from([("H100-80GB", "h100:1"), ("A30-24GB", "A30:1"), ("B200-180GB", "b200:1")])
    )
    geometry, backend = part(name), simulate(persona)
    uuid = first_uuid(backend)
    try:
        backend.set_mig_mode(uuid, True)
    except GpuError:
        backend.reset(uuid)
    placements = [(each.name, start) for each in geometry.profiles for start in each.starts]
    for _ in range(data.draw(st.integers(1, 25))):
        existing = backend.read_inventory().devices[0].instances
        masks = [geometry.profile(each.profile) for each in existing]
        mask = 0
        for profile, each in zip(masks, existing, strict=True):
            assert profile is not None
            assert not mask & profile.mask_at(each.start)
            mask |= profile.mask_at(each.start)
        if existing and data.draw(st.booleans()):
            backend.destroy_instance(uuid, data.draw(st.sampled_from(existing)).uuid)
            continue
        wanted, start = data.draw(st.sampled_from(placements))
        profile = geometry.profile(wanted)
        assert profile is not None
        fits = (
            start in geometry.free_starts(mask, wanted)
            and sum(each.profile == wanted for each in existing) < profile.limit
        )
        if fits:
            backend.create_instance(uuid, wanted, start)
        else:
            with pytest.raises(GpuError) as error:
                backend.create_instance(uuid, wanted, start)
            assert kind_of(error) is GpuErrorKind.INSUFFICIENT_RESOURCES
