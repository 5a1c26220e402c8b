"""The registrations of a fleet's manager, and of the agent of its members."""

from kilonova.component import Command, Component, DocsPage, EmbeddedPart, Flag, ProcessPart

COMPONENTS = (
    Component(
        name="fleet",
        summary="The manager of a fleet (Nebula): which cluster runs how many instances.",
        order=64,
        kinds=(
            "clusters.fleet.kilonova.dev",
            "deployments.inference-engine.groq.io",
            "releases.inference-engine.groq.io",
        ),
        embedded=EmbeddedPart(
            help="Run the manager of a fleet, with this cluster as its hub.",
            build="kilonova.fleet.embedded:build_embedded_fleet",
            by_default=False,
            flags=(
                Flag(
                    name="global-leader-elect-endpoint",
                    type="text",
                    metavar="URL",
                    help="The store of the fleet: a directory, s3://BUCKET/PREFIX, "
                    "kubernetes://NAMESPACE, or three of them, separated by commas; @FILE reads it "
                    "from a file, also while it runs.  [default: a folder of this cluster's data]",
                ),
            ),
        ),
        process=ProcessPart(
            name="fleet",
            command="kilonova.fleet.process.command:fleet",
            deploy="deploy/fleet",
        ),
        commands=(
            Command("fleet", "kilonova.fleet.commands.app:app"),
            Command("nebula", "kilonova.fleet.process.command:nebula"),
        ),
        console="kilonova.fleet.console:CONTRIBUTION",
        pages=(
            DocsPage(
                "docs/fleet.md",
                "Fleets of clusters",
                "releases in many clusters: placement, waves, masks, failover",
            ),
            DocsPage(
                "docs/fleet/store.md",
                "The store of a fleet",
                "where it is, who leads, epochs, changing it while the fleet runs",
            ),
            DocsPage(
                "docs/fleet/supernova.md",
                "Coming from Supernova and Nebula",
                "what they do, row by row, and what is so here",
            ),
        ),
        examples=("examples/fleet",),
    ),
    Component(
        name="member",
        summary="The agent of a member of a fleet: runs what the manager decided.",
        order=66,
        kinds=(
            "inferenceenginedeployments.inference-engine.groq.io",
            "inferenceengineinstances.inference-engine.groq.io",
        ),
        embedded=EmbeddedPart(
            help="Make this cluster a member of a fleet.",
            build="kilonova.fleet.embedded:build_embedded_member",
            by_default=False,
            flags=(
                Flag(
                    name="cluster-name",
                    type="text",
                    metavar="NAME",
                    help="The name of this cluster in the fleet.  [default: local]",
                ),
                Flag(
                    name="cluster-region",
                    type="text",
                    metavar="NAME",
                    help="The region of this cluster in the fleet.",
                ),
                Flag(
                    name="cluster-console",
                    type="text",
                    metavar="URL",
                    help="The address of this cluster's console, as the fleet's console links it.",
                ),
            ),
        ),
        process=ProcessPart(
            name="member",
            command="kilonova.fleet.process.command:member",
            lease="kilonova-member",
            deploy="deploy/member",
        ),
    ),
    Component(
        name="fleet-admission",
        summary="The admission of a fleet's Deployments, by the operator of its hub.",
        order=65,
        kinds=("deployments.inference-engine.groq.io",),
        process=ProcessPart(
            name="operator",
            webhooks="kilonova.fleet.admission:build_webhook_set",
            deploy="deploy/operator",
        ),
    ),
)
