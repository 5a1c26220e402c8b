"""The Kubernetes version whose API the embedded cluster implements."""

KUBERNETES_VERSION = "v1.36.3"
