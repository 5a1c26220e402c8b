"""Configuration files of containerd, kubelet and the CNI plugins."""

from tests.harness.realnode.spec import NodeSpec

CONTAINERD_SOCKET = "/run/containerd/containerd.sock"
PAUSE_IMAGE = "registry.local/pause:1"

SYSCTLS = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}
"""Settings of the whole machine that kubelet wants to have, and without which it exits: it is shown
files with these values."""


def build_containerd_config(runc: str) -> str:
    """containerd without NRI, with CDI devices; it may not lower the OOM score of a process."""
    return f"""\
version = 3
root = "/var/lib/containerd"
state = "/run/containerd"
disabled_plugins = ["io.containerd.nri.v1.nri"]

[grpc]
  address = "{CONTAINERD_SOCKET}"

[plugins."io.containerd.cri.v1.images"]
  snapshotter = "overlayfs"

[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "{PAUSE_IMAGE}"

[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = true
  enable_cdi = true
  cdi_spec_dirs = ["/etc/cdi", "/var/run/cdi"]

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
  BinaryName = "{runc}"
  SystemdCgroup = false
"""


def build_kubelet_config(spec: NodeSpec) -> dict[str, object]:
    """kubelet on cgroups of version 1, on a machine that is not its own: it evicts nothing."""
    little = {"memory.available": "10Mi"}
    little |= {
        f"{place}.{what}": "1%"
        for place in ("nodefs", "imagefs")
        for what in ("available", "inodesFree")
    }
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": False},
            "x509": {"clientCAFile": str(spec.client_authority)},
        },
        "authorization": {"mode": "AlwaysAllow"},
        "containerRuntimeEndpoint": f"unix://{CONTAINERD_SOCKET}",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": "/",
        "failCgroupV1": False,
        "failSwapOn": False,
        "enforceNodeAllocatable": ["pods"],
        "evictionHard": little,
        "imageGCHighThresholdPercent": 100,
        "oomScoreAdj": 0,
        "makeIPTablesUtilChains": False,
        "resolvConf": "",
        "clusterDNS": [],
        "nodeStatusUpdateFrequency": "5s",
        "syncFrequency": "10s",
        "volumePluginDir": "/var/lib/kubelet/volume-plugins",
    }


def build_cni_config(spec: NodeSpec) -> dict[str, object]:
    """A bridge for all pods of the node, without address translation."""
    addresses = {
        "type": "host-local",
        "ranges": [[{"subnet": spec.network.pods}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    bridge = {"type": "bridge", "bridge": "cni0", "isGateway": True, "ipMasq": False}
    return {"cniVersion": "1.0.0", "name": "pods", "plugins": [{**bridge, "ipam": addresses}]}
