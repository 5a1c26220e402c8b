"""Layers depend on names, contents and modes alone; archives follow the OCI image layout."""

import gzip
import hashlib
import io
import json
import os
import sys
import tarfile
from pathlib import Path
from typing import Any

from tools.image.archive import Image, ImageConfig, build_image, write_archive
from tools.image.contents import compile_modules
from tools.image.layers import build_layer
from tools.image.shared_libraries import find_libraries

LIBRARY = f"usr/local/lib/python{sys.version_info.major}.{sys.version_info.minor}"
MODULE = (
    "WORDS = {'one', 'two', 'three'}\n\ndef is_known(word):\n    return word in {'a', 'b', 'c'}\n"
)


def write_tree(folder: Path, names: list[str]) -> Path:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(MODULE)
    (folder / "tmp").mkdir()
    (folder / "tmp").chmod(0o1777)
    (folder / "link").symlink_to("tmp")
    return folder


def build_small_image(folder: Path) -> Image:
    layer = build_layer(write_tree(folder, ["bin/tool"]), "a test")
    config = ImageConfig(
        entrypoint=("tool",), user="65532:65532", environment={"A": "b"}, labels={"title": "small"}
    )
    return build_image([layer], config)


def test_layer_does_not_depend_on_times_or_on_the_order_of_creation(tmp_path: Path) -> None:
    names = [f"{LIBRARY}/one.py", f"{LIBRARY}/two.py", "bin/tool"]
    first = write_tree(tmp_path / "first", names)
    second = write_tree(tmp_path / "second", names[::-1])
    os.utime(second / "bin/tool", (1, 1))
    for folder in (first, second):
        compile_modules(folder)
    assert build_layer(first, "x") == build_layer(second, "x")


def test_layer_has_modes_links_and_bytecode_without_paths_of_this_machine(tmp_path: Path) -> None:
    folder = write_tree(tmp_path / "tree", [f"{LIBRARY}/one.py"])
    (folder / f"{LIBRARY}/one.py").chmod(0o600)
    compile_modules(folder)
    content = gzip.decompress(build_layer(folder, "x").content)
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        entries = {entry.name: entry for entry in tar}
    assert entries["tmp"].mode == 0o1777
    assert entries["link"].linkname == "tmp"
    assert entries[f"{LIBRARY}/one.py"].mode == 0o644
    assert any(name.endswith(".pyc") for name in entries)
    assert {(entry.uid, entry.gid, entry.mtime) for entry in entries.values()} == {(0, 0, 0)}
    assert str(tmp_path).encode() not in content


def test_archive_names_every_blob_by_its_digest(tmp_path: Path) -> None:
    image = build_small_image(tmp_path / "tree")
    path = tmp_path / "image.tar"
    write_archive(image, "registry.example.com/small:1", path)
    with tarfile.open(path) as tar:
        files = {entry.name: read(tar, entry.name) for entry in tar}
    assert json.loads(files["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
    (entry,) = json.loads(files["index.json"])["manifests"]
    assert entry["annotations"]["io.containerd.image.name"] == "registry.example.com/small:1"
    assert entry["digest"] == image.digest
    manifest = get_blob(files, entry)
    config = get_blob(files, manifest["config"])
    assert config["config"]["Entrypoint"] == ["tool"]
    assert (config["config"]["User"], config["config"]["Env"]) == ("65532:65532", ["A=b"])
    (layer,) = manifest["layers"]
    plain = gzip.decompress(files[f"blobs/{layer['digest'].replace(':', '/')}"])
    assert config["rootfs"]["diff_ids"] == [f"sha256:{hashlib.sha256(plain).hexdigest()}"]


def test_libraries_of_the_interpreter_include_loader_and_c_library() -> None:
    found = find_libraries([Path(sys.executable).resolve()], own=[])
    assert "libc.so.6" in found
    assert any("ld-linux" in name for name in found)
    assert all(path.exists() for path in found.values())


def read(tar: tarfile.TarFile, name: str) -> bytes:
    file = tar.extractfile(name)
    assert file is not None
    return file.read()


def get_blob(files: dict[str, bytes], descriptor: dict[str, Any]) -> Any:
    content = files[f"blobs/{descriptor['digest'].replace(':', '/')}"]
    assert descriptor["digest"] == f"sha256:{hashlib.sha256(content).hexdigest()}"
    assert descriptor["size"] == len(content)
    return json.loads(content)
