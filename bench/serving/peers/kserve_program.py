# pyright: basic
# pyright: reportMissingImports=false
"""A tiny model on KServe's SDK: the sum and the difference of two tensors.

`python kserve_program.py HTTP_PORT`
"""

import sys

import numpy as np
from kserve import InferOutput, InferResponse, Model, ModelServer


class Add(Model):
    def __init__(self) -> None:
        super().__init__("add")
        self.ready = True

    def predict(self, payload, headers=None):
        first, second = (each.as_numpy() for each in payload.inputs)
        outputs = []
        for name, values in (("OUTPUT0", first + second), ("OUTPUT1", first - second)):
            output = InferOutput(name, list(values.shape), "INT32")
            output.set_data_from_numpy(values.astype(np.int32), binary_data=False)
            outputs.append(output)
        return InferResponse(payload.id, self.name, outputs)


if __name__ == "__main__":
    port = int(sys.argv[1])
    sys.argv = sys.argv[:1]
    ModelServer(http_port=port, enable_grpc=False, enable_latency_logging=False).start([Add()])
