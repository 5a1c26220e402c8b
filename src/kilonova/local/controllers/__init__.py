"""Built-in controllers: what kube-controller-manager does in a cluster that has one.

They are written on `kilonova.kube` like any other controller, and reach the API in process.
"""

from kilonova.local.controllers.suite import (
    Controllers,
    UnknownController,
    chosen,
    controller_parts,
)
from kilonova.local.controllers.workshop import Workshop

__all__ = ["Controllers", "UnknownController", "Workshop", "chosen", "controller_parts"]
