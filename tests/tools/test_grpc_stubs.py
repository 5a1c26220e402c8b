"""The generated modules of gRPC services are up to date, and what the generator rejects."""

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto

from tools.grpc_stubs.generate import find_protos, generate
from tools.grpc_stubs.services import render_services


@pytest.mark.parametrize("proto", find_protos(), ids=lambda path: path.name)
def test_generated_modules_are_up_to_date(proto):
    for path, text in generate(proto):
        assert path.read_text() == text, f"run python -m tools.grpc_stubs.generate: {path}"


def test_messages_of_protobuf_itself_are_imported_from_their_modules():
    text = render_services(build_file(".google.protobuf.Empty"))
    assert "from google.protobuf import empty_pb2" in text
    assert "AsyncIterator" not in text
    assert "self.get_all: grpc.aio.UnaryUnaryMultiCallable[empty_pb2.Empty, own_pb2.Reply]" in text


def test_messages_of_other_files_are_rejected():
    with pytest.raises(ValueError, match=r"a/own.proto: .other.v1.Thing is of another file"):
        render_services(build_file(".other.v1.Thing"))


def build_file(request: str) -> FileDescriptorProto:
    file = FileDescriptorProto(name="a/own.proto", package="own.v1")
    file.message_type.add(name="Reply")
    service = file.service.add(name="Things")
    service.method.add(name="GetAll", input_type=request, output_type=".own.v1.Reply")
    return file
