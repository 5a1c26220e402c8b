"""The registrations of the scheduler and of its extender for kube-scheduler."""

from kilonova.component import Command, Component, DocsPage, EmbeddedPart, ProcessPart

COMPONENTS = (
    Component(
        name="scheduler",
        summary="The scheduler of gangs and pods.",
        order=60,
        kinds=(
            "podgangs.scheduler.grove.io",
            "queues.scheduling.kilonova.dev",
            "reservations.scheduling.kilonova.dev",
        ),
        embedded=EmbeddedPart(
            help="Run the scheduler; without it, pods wait for one of your own.",
            build="kilonova.scheduler.embedded:build_embedded_scheduler",
        ),
        process=ProcessPart(
            name="scheduler",
            command="kilonova.scheduler.process.command:scheduler",
            lease="kilonova-scheduler",
            deploy="deploy/scheduler",
        ),
        commands=(
            Command("gangs", "kilonova.cli.commands.lists.gangs:gangs"),
            Command("queues", "kilonova.cli.commands.lists.queues:queues"),
            Command("why", "kilonova.cli.commands.why:why"),
            Command("plan", "kilonova.cli.commands.plan:plan"),
            Command("snapshot", "kilonova.cli.commands.snapshot:app"),
        ),
        console="kilonova.scheduler.console:CONTRIBUTION",
        pages=(
            DocsPage(
                "docs/scheduling.md",
                "Scheduling",
                "gangs, topology, queues, why a gang is pending, what-if, snapshots",
            ),
            DocsPage(
                "docs/internals/scheduler.md",
                "The scheduler",
                "how decisions are made; how to add a filter, a score, a part of the snapshot",
                "Internals",
            ),
        ),
        examples=("examples/scheduling",),
    ),
    Component(
        name="extender",
        summary="The scheduler extender, for clusters that keep kube-scheduler.",
        order=70,
        process=ProcessPart(
            name="extender",
            command="kilonova.scheduler.extender.command:extender",
            lease="kilonova-extender",
            deploy="deploy/extender",
        ),
        pages=(
            DocsPage(
                "docs/extender.md",
                "The scheduler extender",
                "GPU awareness for clusters that keep kube-scheduler",
                "Running it on your cluster",
            ),
        ),
    ),
)
