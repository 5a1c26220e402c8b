"""Managers on a network that fails in any way: epochs rise, one leads, the others are refused.

What fails: links that are cut, that hang, that lose, delay and repeat requests; wall clocks that
jump; processes that die without a word, that stop, that come back, and that are paused between
their last check and the write that reaches a member.
"""

import asyncio
from collections.abc import Coroutine
from datetime import timedelta
from random import Random
from typing import Any, TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kilonova.local.virtual_time import VirtualTimeLoop
from tests.fleet.store.candidates import Candidate, Member, Regions
from tests.harness.campaigns import limit_examples

T = TypeVar("T")

NAMES = ("one", "two", "three")
ENDPOINTS = ("s3://a", "s3://a,s3://b,s3://c")
candidate_names = st.sampled_from(NAMES)
bucket_names = st.sampled_from("abc")


class ManagersOnAFailingNetwork(RuleBasedStateMachine):
    """Three managers, three buckets and a member."""

    @initialize(seed=st.integers(0, 2**16), endpoint=st.sampled_from(ENDPOINTS))
    def start(self, seed: int, endpoint: str) -> None:
        self.runner = asyncio.Runner(loop_factory=lambda: VirtualTimeLoop(seed))
        self.random = Random(seed)
        self.endpoint = endpoint
        self.regions = Regions()
        self.member = Member()
        self.paused: list[int] = []
        self.candidates: dict[str, Candidate] = {}
        for name in NAMES:
            self.restart(name)
        self.advance(1)

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(main)

    @rule(seconds=st.sampled_from([0.1, 1, 4, 11, 16, 40]))
    def advance(self, seconds: float) -> None:
        async def pass_time() -> None:
            # In small steps, so that what must always hold is looked at often.
            for _ in range(max(1, int(seconds))):
                await asyncio.sleep(min(seconds, 1.0))
                self.check_leaders()

        self.run(pass_time())

    @rule(name=candidate_names, bucket=bucket_names, hanging=st.booleans())
    def break_link(self, name: str, bucket: str, hanging: bool) -> None:
        link = self.candidates[name].link(bucket)
        link.hanging, link.cut = hanging, not hanging

    @rule(name=candidate_names)
    def mend_links(self, name: str) -> None:
        for bucket in "abc":
            link = self.candidates[name].link(bucket)
            link.hanging = link.cut = False
            link.delay = link.loss = 0.0

    @rule(
        name=candidate_names,
        bucket=bucket_names,
        loss=st.sampled_from([0.1, 0.5]),
        delay=st.sampled_from([0.0, 0.2, 4.0]),
    )
    def degrade_link(self, name: str, bucket: str, loss: float, delay: float) -> None:
        link = self.candidates[name].link(bucket)
        link.loss, link.delay, link.random = loss, delay, self.random

    @rule(name=candidate_names, hours=st.integers(-48, 48))
    def move_wall_clock(self, name: str, hours: int) -> None:
        self.candidates[name].skew = timedelta(hours=hours)

    @rule(name=candidate_names, gracefully=st.booleans())
    def restart(self, name: str, gracefully: bool = False) -> None:
        async def replace() -> None:
            former = self.candidates.get(name)
            if former is not None:
                if not gracefully:
                    former.die()
                await former.stop()
            self.candidates[name] = Candidate(self.regions, name, self.endpoint)

        self.run(replace())

    @rule(name=candidate_names)
    def decide(self, name: str) -> None:
        """A leader writes to the member."""
        epoch = self.run(self.find_valid_epoch(name))
        if epoch is not None:
            self.write(epoch)

    @rule(name=candidate_names)
    def pause_before_write(self, name: str) -> None:
        """A leader has checked that it leads, and is paused."""
        epoch = self.run(self.find_valid_epoch(name))
        if epoch is not None:
            self.paused.append(epoch)

    @rule()
    def wake(self) -> None:
        """Its write reaches the member now."""
        for epoch in self.paused:
            self.write(epoch)
        self.paused.clear()

    def write(self, epoch: int) -> None:
        highest = max(self.member.applied, default=0)
        assert self.run(self.member.apply(epoch)) == (epoch >= highest)

    async def find_valid_epoch(self, name: str) -> int | None:
        term = self.candidates[name].election.term
        return None if term is None or not term.leadership.is_valid() else term.epoch

    @invariant()
    def check_epochs(self) -> None:
        epochs = self.regions.epochs
        assert epochs == sorted(set(epochs)), "an epoch was used twice, or after a higher one"
        assert self.member.applied == sorted(self.member.applied)

    def check_leaders(self) -> None:
        leading = [
            each.name
            for each in self.candidates.values()
            if each.election.leadership is not None and each.election.leadership.is_valid()
        ]
        assert len(leading) <= 1, f"{leading} lead at the same time"

    def teardown(self) -> None:
        """When all is well again, one of them leads."""
        if not hasattr(self, "runner"):
            return
        for name in NAMES:
            self.mend_links(name)
        self.advance(90)
        try:
            assert sum(each.leading.is_set() for each in self.candidates.values()) == 1
        finally:
            self.run(self.stop())
            self.runner.close()

    async def stop(self) -> None:
        for each in self.candidates.values():
            each.die()
            await each.stop()


TestManagersOnAFailingNetwork = ManagersOnAFailingNetwork.TestCase
TestManagersOnAFailingNetwork.settings = settings(
    max_examples=limit_examples(100), stateful_step_count=30
)
