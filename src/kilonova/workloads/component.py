"""The registration of the PodCliqueSet operator."""

from kilonova.component import Command, Component, DocsPage, EmbeddedPart, ProcessPart

COMPONENTS = (
    Component(
        name="operator",
        summary="The operator of PodCliqueSets.",
        order=50,
        kinds=(
            "clustertopologybindings.grove.io",
            "podcliques.grove.io",
            "podcliquescalinggroups.grove.io",
            "podcliquesets.grove.io",
            "podgangs.scheduler.grove.io",
            # Named by PodCliqueSets.
            "queues.scheduling.kilonova.dev",
            "reservations.scheduling.kilonova.dev",
        ),
        embedded=EmbeddedPart(
            help="Run the PodCliqueSet operator and install its CRDs.",
            build="kilonova.workloads.embedded:build_embedded_operator",
        ),
        process=ProcessPart(
            name="operator",
            command="kilonova.workloads.process.command:operator",
            lease="kilonova-operator",
            deploy="deploy/operator",
        ),
        commands=(Command("workloads", "kilonova.cli.commands.lists.workloads:workloads"),),
        pages=(
            DocsPage("docs/workloads.md", "Workloads", "PodCliqueSets, from apply to delete"),
            DocsPage(
                "docs/internals/workloads.md",
                "The operator",
                "the operator of PodCliqueSets; how to add a field",
                "Internals",
            ),
        ),
        examples=("examples/workloads",),
    ),
)
