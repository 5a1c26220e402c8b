"""The interface between kubelet and runtime shim, as the CRI: types, socket protocol, client."""
