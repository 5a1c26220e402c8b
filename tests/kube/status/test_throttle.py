"""How long status writes wait, and for what."""

from collections.abc import Generator
from contextlib import ExitStack, contextmanager

from kilonova.kube import Key
from kilonova.kube.status import StatusThrottle, WriteCongestion


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_first_write_is_at_once_and_the_next_an_interval_later() -> None:
    clock = Clock()
    throttle = StatusThrottle(0.5, clock)
    assert throttle.get_delay("a") == 0
    throttle.record_write("a")
    assert throttle.get_delay("a") == 0.5
    assert throttle.get_delay("b") == 0
    clock.now += 0.5
    assert throttle.get_delay("a") == 0


def test_non_urgent_writes_wait_longer_but_are_bounded() -> None:
    clock = Clock()
    throttle = StatusThrottle(0.5, clock)
    assert throttle.get_delay("a", urgent=False) == 5
    clock.now += 4
    assert throttle.get_delay("a", urgent=False) == 1
    clock.now += 1
    assert throttle.get_delay("a", urgent=False) == 0
    throttle.record_write("a")
    clock.now += 2
    assert throttle.get_delay("a", urgent=False) == 5


def test_write_that_becomes_urgent_does_not_wait() -> None:
    throttle = StatusThrottle(0.5, Clock())
    assert throttle.get_delay("a", urgent=False) == 5
    assert throttle.get_delay("a") == 0


def test_deferrable_writes_wait_for_the_end_of_congestion_but_are_bounded() -> None:
    clock, congestion_ = Clock(), WriteCongestion()
    throttle = StatusThrottle(0.5, clock, congestion_)
    with congested(congestion_):
        assert throttle.get_delay("a") == 0
        assert throttle.get_delay("a", deferrable=True) == 15
        clock.now += 14
        assert throttle.get_delay("a", deferrable=True) == 1
        clock.now += 1
        assert throttle.get_delay("a", deferrable=True) == 0
        assert throttle.get_delay("b", deferrable=True) == 15
    assert throttle.get_delay("b", deferrable=True) == 0


def test_deferred_keys_are_requeued_once_after_congestion() -> None:
    congestion_, called = WriteCongestion(), list[Key]()
    congestion_.register_controller("cliques", called.append)
    congestion_.requeue_when_uncongested("cliques", ("a", "no-rush"))
    with congested(congestion_):
        congestion_.requeue_when_uncongested("cliques", ("a", "b"))
        congestion_.requeue_when_uncongested("cliques", ("a", "b"))
        assert called == []
    assert called == [("a", "b")]


def test_few_writes_are_no_congestion() -> None:
    congestion_ = WriteCongestion()
    with congestion_.track_write():
        assert not congestion_.is_congested


@contextmanager
def congested(congestion: WriteCongestion) -> Generator[None]:
    with ExitStack() as acts:
        for _ in range(20):
            acts.enter_context(congestion.track_write())
        assert congestion.is_congested
        yield
    assert not congestion.is_congested
