"""The embedded kube-apiserver: request handling, auth, admission, registry and storage."""
