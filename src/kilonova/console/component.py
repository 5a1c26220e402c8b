"""The registration of the web console."""

from kilonova.component import Component, DocsPage, EmbeddedPart, Flag, ProcessPart

COMPONENTS = (
    Component(
        name="console",
        summary="The web console.",
        order=90,
        embedded=EmbeddedPart(
            help="Serve the web console.",
            build="kilonova.cli.up.components.console:build_embedded_console",
            flags=(
                Flag(
                    name="console-host",
                    type="text",
                    metavar="HOST",
                    help="Address on which the console listens.",
                    default="127.0.0.1",
                ),
                Flag(
                    name="console-port",
                    type="number",
                    metavar="N",
                    limits=(0, 65535),
                    help="Port of the console; 0 for any free.  [default: the one after --port]",
                ),
                Flag(
                    name="allow-actions",
                    help="Allow scale, restart, suspend, resume, cordon, drain and delete in the "
                    "console.",
                ),
            ),
        ),
        process=ProcessPart(
            name="console",
            command="kilonova.cli.commands.run.console:console",
            deploy="deploy/console",
        ),
        pages=(
            DocsPage(
                "docs/console.md",
                "The console",
                "the map of GPUs, why workloads are pending, queues, events",
            ),
            DocsPage(
                "docs/internals/console.md",
                "How the console works",
                "the console; how to add a table or a page",
                "Internals",
            ),
        ),
    ),
)
