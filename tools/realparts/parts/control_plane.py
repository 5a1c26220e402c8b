"""The control plane of Kubernetes, with kubectl and etcd."""

from tools.realparts.part import CachedPart
from tools.realparts.sources.go_modules import GoModules

VERSION = "v1.36.3"
LOCK = "control-plane"
LINKER_FLAGS = f"-X k8s.io/component-base/version.gitVersion={VERSION}"

PART = CachedPart(
    name="control-plane",
    version=VERSION,
    source=GoModules(
        lock=LOCK,
        commands={
            "etcd": "go.etcd.io/etcd/server/v3",
            "kubectl": "k8s.io/kubernetes/cmd/kubectl",
            "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
            "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
            "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
        },
        linker_flags=LINKER_FLAGS,
    ),
    variable="KUBEBUILDER_ASSETS",
)
