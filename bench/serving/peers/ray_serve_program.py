# pyright: basic
# pyright: reportMissingImports=false, reportAttributeAccessIssue=false
"""A tiny model on Ray Serve with its default proxy: the sum and the difference of two tensors.

`python ray_serve_program.py HTTP_PORT FOLDER` answers v2 requests as far as the load needs it.
"""

import sys
import time

import numpy as np
import ray
from ray import serve
from starlette.requests import Request


@serve.deployment(ray_actor_options={"num_cpus": 0.5}, max_ongoing_requests=100)
class Add:
    async def __call__(self, request: Request):
        if request.method == "GET":
            return {"ready": True}
        inputs = (await request.json())["inputs"]
        first, second = (np.array(each["data"], np.int32) for each in inputs)
        return {
            "model_name": "add",
            "outputs": [
                {"name": name, "datatype": "INT32", "shape": [16], "data": values.tolist()}
                for name, values in (("OUTPUT0", first + second), ("OUTPUT1", first - second))
            ],
        }


if __name__ == "__main__":
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, _temp_dir=sys.argv[2])
    serve.start(http_options={"host": "127.0.0.1", "port": int(sys.argv[1])})
    serve.run(Add.bind(), route_prefix="/")
    while True:
        time.sleep(3600)
