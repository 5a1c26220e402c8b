"""The registration of the GPU layer."""

from kilonova.component import Component

COMPONENTS = (
    Component(
        name="gpu",
        summary="GPU workloads, MIG strategies, and the agents of GPU nodes.",
        order=60,
        kinds=(
            "gpubudgets.kgwe.nvidia.io",
            "gpuworkloads.kgwe.nvidia.io",
            "migstrategies.kgwe.nvidia.io",
            # What GPUWorkloads become.
            "podgangs.scheduler.grove.io",
        ),
    ),
)
