"""An allocation with its inputs, as files: test cases for schedulers and builds.

ID.json, ID.json.sha256    the build
ID.snapshot.json.gz        the snapshot
ID.allocation.yaml         the answer
"""

from pathlib import Path

from kilonova.artifacts.builds import save_build
from kilonova.component.command.output.formats import encode_as
from kilonova.instances.alloc.allocation import Allocation
from kilonova.scheduler.library.snapshots.file import save_snapshot_file
from kilonova.scheduler.library.snapshots.snapshot import ClusterSnapshot


def save_allocation(
    allocation: Allocation, cluster_snapshot: ClusterSnapshot, directory: Path
) -> tuple[Path, ...]:
    """Write the files, over those of an earlier allocation of the build; raises `BuildError` and
    `OSError`."""
    build = save_build(allocation.build, directory)
    snapshot = directory / f"{allocation.build.id}.snapshot.json.gz"
    save_snapshot_file(cluster_snapshot, snapshot)
    answer = directory / f"{allocation.build.id}.allocation.yaml"
    answer.write_text(encode_as(allocation, "yaml") + "\n")
    return build, snapshot, answer
