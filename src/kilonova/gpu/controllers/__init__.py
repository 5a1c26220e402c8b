"""Controllers of GPUWorkloads and MIGStrategies.

- A **GPUWorkload** has a number of GPUs, or of MIG instances. The **split** specifies how many
  equal pods they are in: one where a node has so many. The pods are a gang: `gpuworkload` creates
  the PodGang, the pods, gated until all exist, and what they need to find each other. The scheduler
  chooses nodes and devices; what it chose is reported in the status.
- An **incarnation** is all pods of a workload that run together. If one of them is lost (evicted,
  preempted, deleted, on a lost node), all are replaced by the next incarnation: the processes of a
  distributed program cannot go on without one. The status has its number; it is increased before
  pods are deleted, so that a crash in between is harmless.
- A **MIGStrategy** is assigned to nodes by an annotation (`kilonova.api.gpu.mig_strategy`) that the
  node's agent applies: `migstrategy`.

No state is kept outside the API. `assembly.build_gpu_controllers` is the entry point.
"""

from kilonova.gpu.controllers.assembly import GpuControllers, build_gpu_controllers
from kilonova.gpu.controllers.settings import ControllerSettings

__all__ = ["ControllerSettings", "GpuControllers", "build_gpu_controllers"]
