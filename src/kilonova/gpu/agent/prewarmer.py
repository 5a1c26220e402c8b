"""The stock that the agent keeps of its own accord, and when to look at it again."""

from collections.abc import Mapping, Sequence, Set

from kilonova.gpu.agent.desire.mig import Stock
from kilonova.gpu.agent.desire.prewarming import plan_prewarming
from kilonova.gpu.agent.holders import Holder
from kilonova.gpu.agent.learnt_demand import LearntDemand
from kilonova.gpu.devices.model import NodeInventory

_CHECK_SECONDS = 60.0
"""Learnt demand falls with time alone."""


class Prewarmer:
    """Plans the instances that are made before pods ask for them."""

    def __init__(self, demand: LearntDemand) -> None:
        self._demand = demand
        self._is_active = False

    def load(self, now: float) -> None:
        """Go on with what an agent before has learnt."""
        self._demand.load(now)

    def plan(
        self, inventory: NodeInventory, holders: Sequence[Holder], decided: Set[str], now: float
    ) -> Mapping[str, Stock]:
        """The stock of devices, by UUID; that of the `decided` ones is decided otherwise."""
        self._demand.observe(holders, now)
        stock = plan_prewarming(inventory, holders, self._demand.expected(now), decided)
        self._is_active = bool(stock)
        return stock

    @property
    def next_check(self) -> float | None:
        """Seconds until the stock may be too large."""
        return _CHECK_SECONDS if self._is_active else None
