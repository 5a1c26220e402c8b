"""Generate Python modules from the .proto files of gRPC services, beside each file.

For `echo.proto`: `echo_pb2.py` and `echo_pb2.pyi` have the messages (from protoc); `echo_grpc.py`
has a typed stub and a servicer of each service, for asyncio only (from `services.py`). `--check`
writes nothing and fails if a module is stale.
"""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.resources import as_file, files
from pathlib import Path

from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

from tools.grpc_stubs.services import render_services
from tools.tables import ROOT, write_tables

IMPORT_ROOTS = (ROOT / "src", ROOT)
"""Folders from which modules are imported, the most specific first."""


def main() -> None:
    write_tables(
        "tools.grpc_stubs.generate",
        "Generate the modules of gRPC services.",
        lambda: {
            str(path.relative_to(ROOT)): text.encode()
            for proto in find_protos()
            for path, text in generate(proto)
        },
        ROOT,
    )


def find_protos() -> list[Path]:
    """The .proto files of the product and its tests."""
    return sorted([*(ROOT / "src").rglob("*.proto"), *(ROOT / "tests").rglob("*.proto")])


def generate(proto: Path) -> Iterator[tuple[Path, str]]:
    """The modules of a .proto file, by path."""
    import_root = next(root for root in IMPORT_ROOTS if proto.is_relative_to(root))
    with tempfile.TemporaryDirectory() as folder:
        descriptor = _compile(proto.relative_to(import_root).as_posix(), Path(folder))
        for module in sorted(Path(folder).rglob("*_pb2.py*")):
            yield import_root / module.relative_to(folder), module.read_text()
    if descriptor.service:
        target = proto.with_name(f"{proto.stem}_grpc.py")
        yield target, _format(render_services(descriptor), target)


def _compile(name: str, folder: Path) -> FileDescriptorProto:
    descriptors = folder / "descriptors"
    with as_file(files("grpc_tools") / "_proto") as well_known:
        command = [
            *(sys.executable, "-m", "grpc_tools.protoc"),
            *(f"-I{root}" for root in (*IMPORT_ROOTS, well_known)),
            f"--python_out={folder}",
            f"--pyi_out={folder}",
            f"--descriptor_set_out={descriptors}",
            "--include_source_info",
            name,
        ]
        status = subprocess.run(command, check=False).returncode
    if status:
        sys.exit(f"protoc rejects {name}")
    (descriptor,) = FileDescriptorSet.FromString(descriptors.read_bytes()).file
    return descriptor


def _format(text: str, path: Path) -> str:
    """The text as `make check` wants it."""
    ruff = Path(sys.executable).with_name("ruff")
    command = [ruff, "format", "--stdin-filename", path, "-"]
    return subprocess.run(
        command, input=text, capture_output=True, text=True, check=True, cwd=ROOT
    ).stdout


if __name__ == "__main__":
    main()
