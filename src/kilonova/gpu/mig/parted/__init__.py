"""Files of NVIDIA's mig-parted, and the node label by which its mig-manager selects from them.

A file has **configs** by name; a config has **rules**, each of which specifies which devices it is
for and which MIG instances they should have (`config_file`). `default_configs` generates the ones
that NVIDIA ships (`all-1g.10gb`, `all-balanced`, `all-disabled`); `operations` are `apply`,
`assert` and `export` on a MIG engine; `node_label` is `nvidia.com/mig.config` and its state.
"""
