"""Names of output formats. Imports nothing, since `kilonova --help` imports it."""

from typing import Literal

OutputFormat = Literal["table", "json", "yaml"]
ListFormat = Literal["table", "wide", "json", "yaml", "name"]
