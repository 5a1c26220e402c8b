"""The built-in controllers of the embedded cluster: the job of kube-controller-manager.

They use `kilonova.kube` like any other controller, and reach the API in process. Each package or
module is named after its counterpart in kube-controller-manager. Entry points: `controller_manager`
(which controllers exist, and how they run) and `context` (what they are built from).
"""

from kilonova.local.controllers.context import ControllerContext
from kilonova.local.controllers.controller_manager import (
    ControllerManager,
    UnknownController,
    build_controllers,
    select_controllers,
)

__all__ = [
    "ControllerContext",
    "ControllerManager",
    "UnknownController",
    "build_controllers",
    "select_controllers",
]
