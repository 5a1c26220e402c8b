"""Queue and batches of a model, with a backend that ends when it is told to."""

import asyncio
from array import array
from collections.abc import Sequence

import pytest

from kilonova.serving.modelserver.errors import ErrorKind, InferenceFailed
from kilonova.serving.modelserver.execution import ServedModel
from kilonova.serving.modelserver.models.spec import ModelSpec, QueueSettings
from kilonova.serving.modelserver.tensors import Tensor, TensorSpec, find_datatype
from kilonova.serving.modelserver.tensors.bytes_elements import join_elements, split_elements
from tests.local.embedded_cluster import virtual_time

pytestmark = virtual_time

INT32, BYTES = find_datatype("INT32"), find_datatype("BYTES")


class Backend:
    """Returns its input after a second, and keeps the batches that it got."""

    def __init__(self, queue: QueueSettings, datatype: str = "INT32") -> None:
        shape = (-1, -1) if queue.max_batch_size else (-1,)
        kind = find_datatype(datatype)
        self.spec = ModelSpec(
            name="echo",
            platform="test",
            backend="test",
            inputs=(TensorSpec("x", kind, shape),),
            outputs=(TensorSpec("y", kind, shape),),
            queue=queue,
        )
        self.batches: list[tuple[int, ...]] = []
        self.error: Exception | None = None
        self.is_closed = False

    async def execute(self, inputs: Sequence[Tensor]) -> Sequence[Tensor]:
        self.batches.append(inputs[0].shape)
        await asyncio.sleep(1)
        if self.error is not None:
            raise self.error
        return [inputs[0]._replace(name="y")]

    def close(self) -> None:
        self.is_closed = True


def rows(*values: int, columns: int = 2) -> list[Tensor]:
    """A request with a row for each value."""
    data = array("i", [value for value in values for _ in range(columns)]).tobytes()
    return [Tensor("x", INT32, (len(values), columns), data)]


def read(outputs: Sequence[Tensor]) -> list[int]:
    return list(memoryview(outputs[0].data).cast("B").cast("i"))


BATCHES = QueueSettings(max_batch_size=8, is_dynamic=True)


async def test_requests_that_wait_become_one_batch_and_get_their_own_rows() -> None:
    backend = Backend(BATCHES)
    model = ServedModel(backend)
    requests = [rows(1), rows(2, 3), rows(4), rows(5, 6, 7)]
    found = await asyncio.gather(*(model.infer(each) for each in requests))
    assert [read(each) for each in found] == [[1, 1], [2, 2, 3, 3], [4, 4], [5, 5, 6, 6, 7, 7]]
    assert backend.batches == [(1, 2), (6, 2)]
    assert (model.statistics.executions, model.statistics.inferences) == (2, 7)
    assert model.statistics.success.count == 4
    assert sorted(model.statistics.batches) == [1, 6]


async def test_batch_is_not_larger_than_the_limit() -> None:
    backend = Backend(BATCHES)
    model = ServedModel(backend)
    await asyncio.gather(*(model.infer(rows(*range(3))) for _ in range(5)))
    assert backend.batches == [(3, 2), (6, 2), (6, 2)]


async def test_requests_with_other_shapes_are_batches_of_their_own() -> None:
    backend = Backend(BATCHES)
    model = ServedModel(backend)
    shapes = (2, 2, 3, 2)
    await asyncio.gather(*(model.infer(rows(1, columns=each)) for each in shapes))
    assert backend.batches == [(1, 2), (1, 2), (1, 3), (1, 2)]


async def test_elements_of_bytes_are_split() -> None:
    backend = Backend(BATCHES, "BYTES")
    model = ServedModel(backend)
    texts = [[b"a", b""], [b"longer", b"ab"], [b"", b""], [b"x", b"yz"]]
    found = await asyncio.gather(
        *(model.infer([Tensor("x", BYTES, (1, 2), join_elements(each))]) for each in texts)
    )
    assert [split_elements(each[0].data) for each in found] == texts
    assert backend.batches == [(1, 2), (3, 2)]


async def test_request_waits_for_others_as_long_as_it_may() -> None:
    delayed = QueueSettings(max_batch_size=4, is_dynamic=True, max_delay=0.5)
    backend = Backend(delayed)
    model = ServedModel(backend)
    first = asyncio.create_task(model.infer(rows(1)))
    await asyncio.sleep(0.2)
    second = asyncio.create_task(model.infer(rows(2)))
    await asyncio.sleep(0.2)
    assert backend.batches == []
    await asyncio.gather(first, second)
    assert backend.batches == [(2, 2)]


@pytest.mark.parametrize(("preferred", "sizes"), [((), [(4, 2)]), ((3,), [(3, 2), (1, 2)])])
async def test_full_or_preferred_batch_does_not_wait(
    preferred: tuple[int, ...], sizes: list[tuple[int, int]]
) -> None:
    settings = QueueSettings(
        max_batch_size=4, is_dynamic=True, max_delay=60, preferred_batch_sizes=preferred
    )
    backend = Backend(settings)
    model = ServedModel(backend)
    tasks = [asyncio.create_task(model.infer(rows(each))) for each in range(4)]
    await asyncio.sleep(2)
    assert backend.batches == sizes[:1]
    await asyncio.gather(*tasks)
    assert backend.batches == sizes


async def test_instances_execute_at_the_same_time() -> None:
    model = ServedModel(Backend(QueueSettings(instances=3)))
    loop = asyncio.get_running_loop()
    begin = loop.time()
    single = [Tensor("x", INT32, (1,), b"1234")]
    await asyncio.gather(*(model.infer(single) for _ in range(6)))
    assert loop.time() - begin == pytest.approx(2)


async def test_request_that_waits_too_long_is_refused() -> None:
    model = ServedModel(Backend(QueueSettings(timeout=0.5)))
    single = [Tensor("x", INT32, (1,), b"1234")]
    running = asyncio.create_task(model.infer(single))
    await asyncio.sleep(0)
    with pytest.raises(InferenceFailed, match="not executed within") as caught:
        await model.infer(single)
    assert caught.value.kind is ErrorKind.UNAVAILABLE
    assert model.pending == 0
    await running


async def test_failure_of_a_batch_is_told_to_all_its_requests() -> None:
    backend = Backend(BATCHES)
    model = ServedModel(backend)
    backend.error = ValueError("no memory")
    found = await asyncio.gather(*(model.infer(rows(1)) for _ in range(3)), return_exceptions=True)
    assert [str(each) for each in found] == ["model 'echo' failed: no memory"] * 3
    assert model.statistics.failures["BACKEND"].count == 3
    backend.error = None
    assert read(await model.infer(rows(7))) == [7, 7]


async def test_cancelled_request_leaves_the_batch_of_others_alone() -> None:
    backend = Backend(BATCHES)
    model = ServedModel(backend)
    first, second, third = (asyncio.create_task(model.infer(rows(each))) for each in (1, 2, 3))
    await asyncio.sleep(1.5)  # the batch of the second and the third is executed
    second.cancel()
    assert read(await third) == [3, 3]
    assert read(await first) == [1, 1]
    assert model.in_flight.count == 0


async def test_drain_waits_for_requests_in_flight() -> None:
    backend = Backend(QueueSettings())
    model = ServedModel(backend)
    single = [Tensor("x", INT32, (1,), b"1234")]
    tasks = [asyncio.create_task(model.infer(single)) for _ in range(2)]
    await asyncio.sleep(0.5)
    await model.drain()
    assert all(each.done() for each in tasks)
    assert backend.is_closed
