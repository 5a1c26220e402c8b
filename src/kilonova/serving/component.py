"""The registration of inference services."""

from kilonova.component import Command, Component, DocsPage, EmbeddedPart, ProcessPart

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
        embedded=EmbeddedPart(
            help="Run inference services.",
            build="kilonova.serving.embedded:build_embedded_serving",
        ),
        process=ProcessPart(
            name="serving",
            command="kilonova.serving.process.command:serving",
            lease="kilonova-serving",
            deploy="deploy/serving",
        ),
        console="kilonova.serving.console:CONTRIBUTION",
        commands=(
            Command("serve", "kilonova.serving.commands.app:app"),
            Command("models", "kilonova.serving.commands.models:app"),
            Command("serve-model", "kilonova.serving.commands.serve_model:serve_model"),
        ),
        pages=(
            DocsPage(
                "docs/serving.md",
                "Inference services",
                "model servers behind a gateway, scaled by load, down to zero",
            ),
            DocsPage(
                "docs/serving/autoscaling.md",
                "Autoscaling of an inference service",
                "modes, scale to zero, what is not known, HPA and KEDA",
            ),
            DocsPage(
                "docs/serving/models.md",
                "Models of an inference service",
                "repositories with checksums, and which server has which model",
            ),
            DocsPage(
                "docs/serving/model-server.md",
                "The model server",
                "`kilonova serve-model`: ONNX, language models, v2 and the OpenAI API",
            ),
            DocsPage(
                "docs/serving/bench.md",
                "Load tests",
                "`kilonova serve bench`: closed and open loops, objectives, charts",
            ),
            DocsPage(
                "docs/serving/supersonic.md",
                "Coming from SuperSONIC",
                "values files, the Helm chart, the namespaced mode, dashboards",
            ),
            DocsPage(
                "docs/serving/supersonic-values.md",
                "Values of SuperSONIC, key by key",
                "what each key does here",
            ),
        ),
        examples=("examples/serving",),
    ),
    Component(
        name="serving-admission",
        summary="The admission of inference services, by the operator.",
        order=65,
        kinds=("inferenceservices.serving.kilonova.dev",),
        process=ProcessPart(
            name="operator",
            webhooks="kilonova.serving.admission:build_webhook_set",
            deploy="deploy/operator",
        ),
    ),
)
