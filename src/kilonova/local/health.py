"""/livez, /readyz and /healthz, in the words of Kubernetes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kilonova.kube.transport import Reply, Request

_HEADERS = {"content-type": "text/plain; charset=utf-8", "x-content-type-options": "nosniff"}


@dataclass(frozen=True, slots=True)
class Probe:
    """A named check. One that is not about `life` says nothing about /livez."""

    name: str
    passes: Callable[[], bool]
    life: bool = True


class Health:
    """Answers for all probes together, or for one of them (`/readyz/store`)."""

    def __init__(self, probes: Sequence[Probe]) -> None:
        self._probes = probes

    def answer(self, request: Request, endpoint: str, name: str) -> Reply | None:
        """The answer of `endpoint` (livez, readyz, healthz); None for a check there is not."""
        probes = [probe for probe in self._probes if probe.life or endpoint != "livez"]
        if not name:
            return _all_together(request, endpoint, probes)
        for probe in probes:
            if probe.name == name:
                if probe.passes():
                    return _text(200, "ok")
                return _text(500, "internal server error: the check failed\n")
        return None


def _all_together(request: Request, endpoint: str, probes: list[Probe]) -> Reply:
    excluded = {value for key, value in request.query if key == "exclude"}
    lines: list[str] = []
    failed = False
    for probe in probes:
        if probe.name in excluded:
            lines.append(f"[+]{probe.name} excluded: ok")
        elif probe.passes():
            lines.append(f"[+]{probe.name} ok")
        else:
            failed = True
            lines.append(f"[-]{probe.name} failed: reason withheld")
    unknown = sorted(excluded - {probe.name for probe in probes})
    if unknown:
        listed = ",".join(f'"{name}"' for name in unknown)
        lines.append(f"warn: some health checks cannot be excluded: no matches for {listed}")
    lines.append(f"{endpoint} check {'failed' if failed else 'passed'}")
    if not failed and request.param("verbose") is None:
        return _text(200, "ok")
    return _text(500 if failed else 200, "\n".join(lines) + "\n")


def _text(status: int, text: str) -> Reply:
    return Reply(status, text.encode(), dict(_HEADERS))
