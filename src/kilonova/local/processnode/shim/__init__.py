"""The runtime shim: starts containers, writes their logs and records how they end.

Like containerd-shim, it outlives its client: there is one process per directory, in a session of
its own. It uses only the standard library and loads nothing of Kilonova outside of `shim`,
`network` and `cri`, to stay small for as long as a pod runs. `cri.client.ShimRuntime` talks to it
over a socket in the directory, and launches it if it is not running. It exits when no container
runs and no client has connected for a while. Entry point: `daemon.run_shim`.

A *view* is the file system as a container sees it; a *group* is all processes of a container,
including reparented ones; a *record* is the persisted state of a container.
"""
