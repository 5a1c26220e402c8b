"""A real OpenTelemetry collector, for tests: receives OTLP, and tells which spans it got.

with OtelCollector.start(otelcol_part, folder) as collector:
    ...  # something sends traces to collector.endpoint
    collector.wait_for_span("ingress")
"""

import json
import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from tests.harness.s3_server import is_listening
from tests.harness.server_process import ServerProcess, find_free_port
from tools.realparts.parts.otelcol import COMMAND

_CONFIG = {
    "exporters": {"debug": {"verbosity": "detailed"}},
    "service": {
        "pipelines": {"traces": {"receivers": ["otlp"], "exporters": ["debug"]}},
        "telemetry": {"metrics": {"level": "none"}},
    },
}
_FIELD = re.compile(r"^\s+(Trace ID|Parent ID|ID|Name|Kind|Status code)\s*: (.*)$", re.MULTILINE)
_ATTRIBUTE = re.compile(r"^\s+-> ([^:\s]+): \w+\((.*)\)$", re.MULTILINE)


@dataclass(frozen=True)
class Span:
    """A span that the collector printed."""

    name: str
    trace_id: str
    span_id: str
    parent_id: str
    service: str
    kind: str
    attributes: dict[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True)
class OtelCollector(AbstractContextManager["OtelCollector"]):
    """A running collector."""

    endpoint: str
    """`HOST:PORT` for OTLP over gRPC."""
    http_endpoint: str
    """The URL for OTLP over HTTP."""
    process: ServerProcess

    @classmethod
    def start(cls, part: Path, folder: Path) -> "OtelCollector":
        """Start one; `part` is the fixture `otelcol_part`."""
        grpc, http = find_free_port(), find_free_port()
        protocols = {
            "grpc": {"endpoint": f"127.0.0.1:{grpc}"},
            "http": {"endpoint": f"127.0.0.1:{http}"},
        }
        config = folder / "otelcol.json"
        config.write_text(json.dumps({**_CONFIG, "receivers": {"otlp": {"protocols": protocols}}}))
        process = ServerProcess(
            "otelcol", [part / COMMAND, f"--config=file:{config}"], folder / "otelcol.log"
        )
        process.wait_until(lambda: is_listening(grpc) and is_listening(http))
        return cls(f"127.0.0.1:{grpc}", f"http://127.0.0.1:{http}", process)

    def read_spans(self) -> list[Span]:
        """All spans that it got."""
        text = self.process.log.read_text(errors="replace")
        spans: list[Span] = []
        for resource in re.split(r"ResourceSpans #\d+\n", text)[1:]:
            head, *bodies = re.split(r"^Span #\d+\n", resource, flags=re.MULTILINE)
            service = dict(_ATTRIBUTE.findall(head)).get("service.name", "")
            spans += [_parse_span(body, service) for body in bodies]
        return spans

    def wait_for_span(
        self, name: str, matches: Callable[[Span], bool] = lambda _: True, timeout: float = 30
    ) -> Span:
        """The first span of that name that matches, once it is there."""
        found: list[Span] = []

        def is_there() -> bool:
            found[:] = [each for each in self.read_spans() if each.name == name and matches(each)]
            return bool(found)

        self.process.wait_until(is_there, timeout)
        return found[0]

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.process.stop()


def _parse_span(text: str, service: str) -> Span:
    fields = {name: value.strip() for name, value in reversed(_FIELD.findall(text))}
    return Span(
        name=fields.get("Name", ""),
        trace_id=fields.get("Trace ID", ""),
        span_id=fields.get("ID", ""),
        parent_id=fields.get("Parent ID", ""),
        service=service,
        kind=fields.get("Kind", ""),
        attributes=dict(_ATTRIBUTE.findall(text)),
    )
