"""What a request is for: its model, and the beginning of its prompt, as headers.

Over gRPC, Envoy extracts the field of the first message; over HTTP a script reads the path, or the
body of an OpenAI request. Then the route is chosen again. Only where something depends on it.
"""

import base64
from collections.abc import Iterator

from kilonova.serving.gateway.config.envoy_types import build_extension
from kilonova.serving.gateway.config.filters.lua_sources import build_lua_filter
from kilonova.serving.gateway.config.inputs import GatewayInputs
from kilonova.serving.gateway.model import EnvoyResource

_SERVICE = "inference.GRPCInferenceService"
_FIELDS = {
    "ModelInfer": "model_name",
    "ModelStreamInfer": "model_name",
    "ModelMetadata": "name",
    "ModelReady": "name",
    "ModelConfig": "name",
}
"""The field that names the model, by method."""


def build_name_filters(inputs: GatewayInputs) -> Iterator[EnvoyResource]:
    """The filters that name what a request is for."""
    if not inputs.reads_bodies():
        return
    if inputs.reads_models() and any(each.ports.grpc for each in inputs.spec.servers):
        yield _build_field_extraction()
    prompts = [
        each.prefix_length
        for each in inputs.spec.gateway.load_balancing.hash
        if each.source == "PromptPrefix"
    ]
    yield build_lua_filter(
        "request_names",
        {
            "prompt_length": max(prompts, default=0) if inputs.hashes("PromptPrefix") else 0,
            "has_placement": inputs.has_placement(),
        },
    )


def _build_field_extraction() -> EnvoyResource:
    return build_extension(
        "envoy.filters.http.grpc_field_extraction",
        "envoy.extensions.filters.http.grpc_field_extraction.v3.GrpcFieldExtractionConfig",
        descriptor_set={"inline_bytes": base64.b64encode(_serialize_descriptors()).decode()},
        extractions_by_method={
            f"{_SERVICE}.{method}": {"request_field_extractions": {field: {}}}
            for method, field in _FIELDS.items()
        },
    )


def _serialize_descriptors() -> bytes:
    """The FileDescriptorSet of the protocol."""
    from google.protobuf.descriptor_pb2 import FileDescriptorSet

    from kilonova.serving.grpc import inference_pb2

    descriptors = FileDescriptorSet()
    inference_pb2.DESCRIPTOR.CopyToProto(descriptors.file.add())
    return descriptors.SerializeToString(deterministic=True)
