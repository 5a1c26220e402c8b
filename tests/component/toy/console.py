"""The console page of greetings."""

from kilonova.component.console import Column, ConsoleContribution, LiveObject, Page, Row, Table
from tests.component.toy.kind import GREETINGS, Greeting


class GreetingRow(Row, frozen=True, gc=False, kw_only=True):
    """A greeting. Its id is `namespace/name`."""

    message: str = ""


def greeting_row(greeting: Greeting) -> GreetingRow:
    """The row of a greeting."""
    metadata = greeting.metadata
    return GreetingRow(id=f"{metadata.namespace}/{metadata.name}", message=greeting.status.message)


CONTRIBUTION = ConsoleContribution(
    component="greeter",
    tables=(Table("greetings", GREETINGS, greeting_row),),
    pages=(
        Page(
            path="/greetings",
            title="Greetings",
            table="greetings",
            columns=(
                Column(field="name", title="Name"),
                Column(field="message", title="Message"),
            ),
            sections=(LiveObject(),),
        ),
    ),
)
