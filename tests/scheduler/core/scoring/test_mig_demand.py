"""The demand for MIG profiles: learned, forgotten, and used to place instances."""

import numpy as np

from kilonova.catalog.mig import known_geometries
from kilonova.catalog.resource_names import GPU
from kilonova.scheduler.core.gpu.assignment import assign_devices
from kilonova.scheduler.core.gpu.layout import Gpu, GpuLayout, GpuShare
from kilonova.scheduler.core.gpu.mig import ANY_PROFILE, best_start, remaining_value
from kilonova.scheduler.core.model.gangs import Member
from kilonova.scheduler.core.model.nodes import Node
from kilonova.scheduler.core.model.pod_placement import PodPlacement
from kilonova.scheduler.core.model.requests import GpuRequest, Shape
from kilonova.scheduler.core.model.snapshot import Snapshot
from kilonova.scheduler.core.scoring.mig_demand import MigDemand
from kilonova.scheduler.core.scoring.packing_fit import LearnedPackingFit, PackingFit
from tests.scheduler.core.support.clusters import snapshot_of

H100 = next(each for each in known_geometries() if each.name == "H100-80GB")


def instance(profile: str, count: int = 1) -> Shape:
    return Shape((("pods", 1),), GpuRequest(count, profile=profile))


def node(name: str, gpus: int = 1) -> Node:
    layout = GpuLayout(tuple(Gpu(index, 81_559, mig=H100) for index in range(gpus)))
    return Node(name, {"pods": 110, GPU: gpus}, layout=layout)


def occupy(snapshot: Snapshot, name: str, *instances: tuple[str, int], gpu: int = 0) -> None:
    for profile, start in instances:
        known = H100.profile(profile)
        assert known is not None
        share = GpuShare(gpu, 0, profile, start, known.mask_at(start))
        member = Member(f"ns/{name}-{gpu}-{profile}-{start}", instance(profile))
        snapshot.add_pod(PodPlacement(member, snapshot.row(name), (share,)))


def test_demand_is_mostly_unknown_after_few_arrivals() -> None:
    assert MigDemand().weights() == ()
    few = MigDemand.of_shapes([instance("1g.10gb")]).weights()
    assert dict(few)[ANY_PROFILE] > dict(few)["1g.10gb"]
    many = MigDemand.of_shapes([instance("1g.10gb")] * 200).weights()
    assert dict(many)["1g.10gb"] >= 0.9


def test_later_requests_count_more() -> None:
    shapes = [instance("3g.40gb")] * 1000 + [instance("1g.10gb")] * 1000
    weights = dict(MigDemand.of_shapes(shapes).weights())
    assert weights["1g.10gb"] > 2 * weights["3g.40gb"]


def test_requests_without_instances_do_not_count() -> None:
    demand = MigDemand.of_shapes([Shape(), Shape((), GpuRequest(1)), Shape((), GpuRequest(1, 500))])
    assert demand.weights() == ()


def test_equal_arrivals_give_equal_demand() -> None:
    shapes = [instance("1g.10gb"), instance("3g.40gb", 2), instance("1g.10gb")] * 20
    assert MigDemand.of_shapes(shapes).weights() == MigDemand.of_shapes(list(shapes)).weights()


def test_slices_that_likely_profiles_need_stay_free() -> None:
    # A 2g at 4 keeps slices free for a 4g, which starts at 0 only; at 0 for a 3g beside another 2g.
    assert best_start(H100, 0, "2g.20gb", (("4g.40gb", 1.0),)) == 4
    snapshot = snapshot_of(node("a"))
    snapshot.mig_demand = MigDemand.of_shapes([instance("4g.40gb")] * 100).weights()
    [[share]] = assign_devices(snapshot, 0, instance("2g.20gb"), 1)
    assert share.start == 4


def test_any_profile_spreads_its_weight_evenly() -> None:
    only_any = remaining_value(H100, ((ANY_PROFILE, 0.4),))
    assert np.allclose(only_any, remaining_value(H100))


def test_node_that_loses_least_of_what_is_likely_is_preferred() -> None:
    snapshot = snapshot_of(node("breaks"), node("keeps"), node("idle"))
    occupy(snapshot, "breaks", ("3g.40gb", 0))  # one more 1g takes the place of a 3g
    occupy(snapshot, "keeps", ("1g.10gb", 0), ("3g.40gb", 4))
    snapshot.mig_demand = MigDemand.of_shapes([instance("3g.40gb")] * 200).weights()
    rows = np.array([snapshot.row(name) for name in ("breaks", "keeps", "idle")])
    breaks, keeps, idle = PackingFit.from_snapshot(snapshot)(snapshot, instance("1g.10gb"), rows)
    assert keeps > breaks > idle


def test_demand_starts_with_running_pods() -> None:
    snapshot = snapshot_of(node("a", 2))
    occupy(snapshot, "a", ("3g.40gb", 0), ("3g.40gb", 4))
    fit = LearnedPackingFit()
    fit.learn(snapshot)
    assert dict(snapshot.mig_demand)["3g.40gb"] > 0
    before, version = snapshot.mig_demand, fit.version
    for _ in range(50):
        fit.record_arrival(instance("1g.10gb"))
    fit.learn(snapshot)
    assert snapshot.mig_demand != before
    assert fit.version > version
    assert dict(snapshot.mig_demand)["1g.10gb"] > dict(snapshot.mig_demand).get("3g.40gb", 0)
