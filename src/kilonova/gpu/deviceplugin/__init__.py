"""The device plugin: `nvidia.com/gpu` and `nvidia.com/mig-PROFILE` on a kubelet.

The kubelet counts devices and assigns **ids**, and knows nothing of the scheduler's choice; the
choice is the pod's annotation `gpu.kilonova.dev/devices`. So an id is that of a **plugin device**
(`plugin_devices`): the kubelet may pick any, and `Allocate` answers with what the annotation
reports. Where the plugin is asked for a preference it names the ids of the assigned devices, so
that both usually agree.

`Allocate` says neither which pod nor which container it is for. `matching` finds out: the kubelet
admits one pod after the other, and its pod resources API lists the pod that is being admitted, but
not those that come later. `assignment` then specifies which devices of the pod are the container's,
and chooses free ones for pods that another scheduler has bound. `allocator` does what follows: MIG
instances, the CDI spec, the checkpoint. `server` keeps one plugin (`plugin`) for each resource
registered, also when the kubelet restarts or sockets are removed.
"""

from kilonova.gpu.deviceplugin.allocator import Allocator
from kilonova.gpu.deviceplugin.plugin_devices import SHARED_GPU, Advertisement
from kilonova.gpu.deviceplugin.pods import ApiPods, NodePod, PodSource
from kilonova.gpu.deviceplugin.server import DevicePluginServer
from kilonova.gpu.deviceplugin.sharing import MpsPodSharing

__all__ = [
    "SHARED_GPU",
    "Advertisement",
    "Allocator",
    "ApiPods",
    "DevicePluginServer",
    "MpsPodSharing",
    "NodePod",
    "PodSource",
]
