"""The registration of the controllers of inference engines."""

from kilonova.component import Command, Component, DocsPage, EmbeddedPart, Flag, ProcessPart

COMPONENTS = (
    Component(
        name="instances",
        summary="Instances of models: placed as a whole, repaired in parts.",
        order=62,
        kinds=(
            "inferenceenginedeployments.inference-engine.groq.io",
            "inferenceengineinstances.inference-engine.groq.io",
            "releases.inference-engine.groq.io",
            # What instances become, and what they read of the cluster's topology.
            "clustertopologybindings.grove.io",
            "podgangs.scheduler.grove.io",
            "reservations.scheduling.kilonova.dev",
        ),
        embedded=EmbeddedPart(
            help="Run the controllers of inference engines.",
            build="kilonova.instances.embedded:build_embedded_instances",
            flags=(
                Flag(
                    name="builds",
                    type="text",
                    metavar="URL",
                    help="Where builds of instances are: a directory, s3://BUCKET/PREFIX or "
                    "oci://REGISTRY/REPOSITORY.  [default: KILONOVA_BUILDS]",
                    parse="kilonova.instances.artifact_sources:resolve_source",
                ),
                Flag(
                    name="tokenizers",
                    type="text",
                    metavar="PLACE",
                    help="The store of tokenizers that releases may name; the tokenizers of "
                    "releases are verified.  [default: KILONOVA_TOKENIZERS]",
                    parse="kilonova.instances.artifact_sources:resolve_source",
                ),
            ),
        ),
        process=ProcessPart(
            name="operator",
            assemble="kilonova.instances.process.operator:assemble_instance_controllers",
            webhooks="kilonova.instances.admission:build_webhook_set",
            deploy="deploy/operator",
        ),
        console="kilonova.instances.console:CONTRIBUTION",
        commands=(
            Command("instances", "kilonova.instances.commands.deployments.app:app"),
            Command("supernova", "kilonova.instances.process.command:supernova"),
            Command("fit", "kilonova.instances.commands.placement.fit:fit"),
            Command("alloc", "kilonova.instances.commands.placement.alloc:alloc"),
            Command("engine", "kilonova.instances.commands.engine:app"),
            Command("builds", "kilonova.instances.commands.builds.command:app"),
            Command("tokenizers", "kilonova.instances.commands.tokenizers:app"),
        ),
        pages=(
            DocsPage(
                "docs/instances.md",
                "Instances of models",
                "agents and conductors: placement as a whole, the repair ladder, plug-ins",
            ),
            DocsPage(
                "docs/instances/deployments.md",
                "Deployments of instances",
                "equal instances in a cluster: updates, rollback, how many more fit",
            ),
            DocsPage(
                "docs/instances/fit.md",
                "Who holds which accelerator, and what fits",
                "`kubectl fit` and `kilonova alloc`",
            ),
            DocsPage(
                "docs/instances/engine.md",
                "A small engine",
                "agents and a conductor that really run, lose each other and recover",
            ),
            DocsPage(
                "docs/instances/builds.md",
                "Builds",
                "what an instance needs, from a directory, S3 or an OCI registry",
            ),
            DocsPage(
                "docs/instances/tokenizers.md",
                "Tokenizers",
                "a store with checksums and test cases: add, verify, sync",
            ),
        ),
        examples=("examples/instances",),
    ),
)
