"""The controller of GPUWorkloads. A key is a workload.

`desire` decides, from a workload and what exists of it, what to write; `split` how many pods it
has; `pods`, `environment`, `affinity`, `gpu_resources` and `gang` build its objects; `placement`
reads what the scheduler chose, and `status` reports it. All of that is pure. `writer` writes what
differs, and `controller` reads the caches.
"""
