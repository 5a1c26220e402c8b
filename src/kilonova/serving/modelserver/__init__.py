"""`kilonova serve-model`: a model server for one machine.

It speaks KServe's v2 protocol over HTTP and gRPC with Triton's extensions, and OpenAI's API. Words:

- a **definition** specifies how a model is made: a folder of the model repository, a built-in
  model, or a language model, with their options; a **backend** is what it becomes when it is
  loaded, and executes tensors;
- a **served model** has a backend, a bounded **queue**, **instances** (executions at the same time)
  and statistics; with dynamic batching, requests in the queue become one **batch**;
- a **language model** has an **engine**: sequences share **steps** (continuous batching), each
  within a number of slots, and **blocks** of the KV cache, which prompts with the same beginning
  share;
- the **registry** has all models by name, with their states; it loads, unloads and drains.

`tensors` are raw bytes with a type and a shape: nothing here needs numpy but the ONNX backend.
`v2` and `openai_handlers` translate the protocols; `process` assembles a server from
`ServerSettings` and runs it until SIGTERM. gRPC, numpy, onnxruntime, OpenTelemetry and PyTorch are
imported where they are needed.
"""
