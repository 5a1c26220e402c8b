"""The registration of inference services."""

from kilonova.component import Component

COMPONENTS = (
    Component(
        name="serving",
        summary="Inference services: model servers behind a gateway, scaled by load.",
        order=64,
        kinds=(
            "inferenceservices.serving.kilonova.dev",
            # What the servers become.
            "podcliquesets.grove.io",
        ),
        console="kilonova.serving.console:CONTRIBUTION",
    ),
)
