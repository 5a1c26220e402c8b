"""Queue forests: small ones by hand, any by strategy."""

from dataclasses import dataclass

from hypothesis import strategies as st

from kilonova.scheduler.core.queueing.forest import build_queue_forest
from kilonova.scheduler.core.queueing.ledger import Ledger
from kilonova.scheduler.core.queueing.queues import QueueForest, QueueSpec, ResourceAmounts

GPU = "nvidia.com/gpu"
RESOURCES: tuple[str, ...] = (GPU, "cpu")


@dataclass(frozen=True)
class Job:
    """A pending gang with its requests."""

    name: str
    queue: str = "default"
    priority: int = 0
    created: float = 0.0
    gpus: int = 1

    @property
    def amounts(self) -> ResourceAmounts:
        return {GPU: self.gpus}


def ledger(forest: QueueForest, **amounts: int) -> Ledger:
    """A ledger with GPUs charged by queue."""
    result = Ledger(forest)
    for queue, gpus in amounts.items():
        result.charge(queue, {GPU: gpus})
    return result


def two_departments() -> QueueForest:
    """Two departments of two teams each; teams deserve 4 GPUs."""
    return build_queue_forest(
        [
            QueueSpec("science", limit={GPU: 12}),
            QueueSpec("physics", parent="science", deserved={GPU: 4}, limit={GPU: 10}),
            QueueSpec("biology", parent="science", deserved={GPU: 4}),
            QueueSpec("products", deserved={GPU: 8}),
            QueueSpec("search", parent="products", deserved={GPU: 4}),
            QueueSpec("chat", parent="products", deserved={GPU: 4}),
        ]
    )


def amounts(most: int, least: int = 0) -> st.SearchStrategy[dict[str, int]]:
    """Amounts of some resources, or of none."""
    return st.dictionaries(st.sampled_from(RESOURCES), st.integers(least, most))


@st.composite
def sound_specs(draw: st.DrawFn, most: int = 12) -> list[QueueSpec]:
    """Queues with a path to a root; limits and deserved amounts may contradict each other."""
    specs: list[QueueSpec] = []
    for index in range(draw(st.integers(1, 7))):
        parent = draw(st.sampled_from(["", *(each.name for each in specs)]))
        deserved, limit = draw(amounts(most)), draw(amounts(2 * most))
        weight, priority = draw(st.integers(0, 4)), draw(st.integers(0, 2))
        specs.append(QueueSpec(f"q{index}", parent, deserved, limit, weight, priority))
    return specs


@st.composite
def any_specs(draw: st.DrawFn) -> list[QueueSpec]:
    """Invalid queues: cycles, unknown parents, negative amounts."""
    names = [f"q{index}" for index in range(draw(st.integers(0, 7)))]
    some = amounts(12, least=-3)
    return [
        QueueSpec(
            name,
            draw(st.sampled_from(["", "nowhere", "default", *names])),
            draw(some),
            draw(some),
            draw(st.integers(-1, 4)),
            draw(st.integers(-2, 2)),
            draw(st.none() | st.floats(-1, 100)),
        )
        for name in names
    ]


def leaves(forest: QueueForest) -> list[str]:
    """Leaf queues, which accept gangs."""
    return [name for name in forest.queues if forest.admission_problem(name) is None]
