"""The registration of the greeter."""

from kilonova.component import Command, Component, DocsPage, EmbeddedPart, Flag, ProcessPart

COMPONENTS = (
    Component(
        name="greeter",
        summary="Greets.",
        kinds=("greetings.toy.example.com",),
        definitions="tests.component.toy.kind:load_definitions",
        embedded=EmbeddedPart(
            help="Run the greeter.",
            build="tests.component.toy.parts:build_embedded_greeter",
            flags=(Flag(name="salutation", type="text", help="How to greet.", default="Hello"),),
        ),
        process=ProcessPart(
            name="greeter",
            assemble="tests.component.toy.parts:assemble_greeter",
            lease="kilonova-greeter",
            deploy="tests/component/toy/deploy",
        ),
        commands=(Command("greetings", "tests.component.toy.command:greetings"),),
        console="tests.component.toy.console:CONTRIBUTION",
        checks="tests.component.toy.checks:check_greetings",
        pages=(DocsPage("tests/component/toy/greetings.md", "Greetings", "how to be greeted"),),
        examples=("tests/component/toy/greeting.yaml",),
    ),
)
