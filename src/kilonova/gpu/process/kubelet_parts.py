"""What the agent serves to the kubelet: the device plugin and the DRA driver."""

from collections.abc import Sequence

from kilonova.component.process.process import Process
from kilonova.gpu.agent.local_agent import LocalAgent
from kilonova.gpu.process.options import AgentOptions
from kilonova.kube import Runnable


async def build_kubelet_parts(
    process: Process, options: AgentOptions, local: LocalAgent
) -> Sequence[Runnable]:
    """What has to run; nothing where neither is served."""
    del process, options, local
    return ()
