"""Real parts: servers and tools of other projects that the full test suite runs.

A **part** is one of them at one version, such as the control plane of Kubernetes or an S3 server.
It lies in the user's cache, in a folder of its own that is named after the version and a digest of
what it is made from: a changed pin is another folder, an unchanged one costs nothing. Nothing of a
part is installed into Kilonova's own environment.

A **source** makes a part: Go modules pinned by `locks/NAME/go.mod` and `go.sum`, packages of
Debian, or wheels of PyPI pinned by hash. It works in a folder beside the final one, which is
renamed when it is complete: what is there is whole, and an interrupted run is continued by the next
one.

`current` beside the folders is a link to the one that was got last, for programs that cannot know
its name. `python -m tools.realparts [NAME …]` gets parts (`make real-parts`), `find_part` finds
one. Only the standard library is used: parts can be made before anything is installed.
"""

from tools.realparts.part import PartUnavailable
from tools.realparts.parts import find_part, missing_part_message

__all__ = ["PartUnavailable", "find_part", "missing_part_message"]
