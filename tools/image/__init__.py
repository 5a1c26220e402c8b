"""The OCI image of Kilonova, written without a container builder.

The image has three **layers**: the running Python with the shared libraries that it loads, the
pinned dependencies, and Kilonova's wheel. Each is a tar file whose entries are sorted and carry
neither owners nor times of this machine, so the same input gives the same digest. `archive` puts
layers, configuration and manifest into one file of the OCI image layout, which container runtimes
and the tools of registries read.

`python -m tools.image` (`make image`) is the entry point.
"""
