"""Programs for a machine with a real GPU: `python -m tools.hardware NAME`.

They need the standard library and Kilonova alone (with `msgspec` and `nvidia-ml-py`), so that they
run from unpacked wheels:

    PYTHONPATH=src:wheels python3 -m tools.hardware gpu-discovery --out transcript.md

Each prints its transcript as Markdown, exits with 1 if a check failed, and leaves the GPU as it
found it, also when it is interrupted.
"""
