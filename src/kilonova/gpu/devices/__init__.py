"""The GPUs of a node: what they are (`model`), the way to them (`backend`), and what may go wrong
(`errors`).

`selection` opens a backend by its name: `nvml` (this machine), `simulated` (hardware that is not
there) or `recorded` (readings in a file). `dcgm` measures through a DCGM exporter that runs
already.
`fault_injection` lets calls of any backend fail, for tests. `paths` computes how two devices are
connected; `geometries`, `architectures` and `throttle_reasons` what values of the driver mean.
"""
