"""ServiceAccounts."""

from kilonova.local.kinds.columns import AGE, NAME
from kilonova.local.kinds.strategy import Strategy, strategy


@strategy("", "ServiceAccount")
class ServiceAccounts(Strategy):
    """Who a pod is."""

    shown_when_deleted = True
    columns = (NAME, AGE)
