"""The registration of the GPU layer."""

from kilonova.component import Command, Component, DocsPage, EmbeddedPart, Flag, ProcessPart

COMPONENTS = (
    Component(
        name="gpu",
        summary="GPU workloads, MIG strategies, and the agents of GPU nodes.",
        order=60,
        kinds=(
            "gpubudgets.kgwe.nvidia.io",
            "gpuworkloads.kgwe.nvidia.io",
            "migstrategies.kgwe.nvidia.io",
            # What GPUWorkloads become.
            "podgangs.scheduler.grove.io",
        ),
        embedded=EmbeddedPart(
            help="Run the agents of simulated GPU nodes, which make MIG instances and watch "
            "health.",
            build="kilonova.gpu.embedded:build_embedded_gpu",
            flags=(
                Flag(
                    name="gpu-metrics-port",
                    type="number",
                    metavar="N",
                    limits=(0, 65535),
                    help="Serve the metrics of the simulated GPUs for Prometheus on 127.0.0.1, as "
                    "node agents do on port 9400; 0 for any free.  [default: not served]",
                ),
            ),
        ),
        process=ProcessPart(
            name="operator",
            assemble="kilonova.gpu.process.operator:assemble_gpu_controllers",
            webhooks="kilonova.gpu.admission:build_webhook_set",
            deploy="deploy/operator",
        ),
        commands=(Command("gpu", "kilonova.gpu.commands.app:app"),),
        checks="kilonova.gpu.checks:check_gpus",
        pages=(
            DocsPage(
                "docs/gpu.md", "GPUs", "what is there, and what users of GPU clusters ask for"
            ),
            DocsPage(
                "docs/gpu/devices.md",
                "Discovery, topology and health of GPUs",
                "`kilonova gpu discover`, `topology` and `health`",
            ),
            DocsPage(
                "docs/gpu/mig.md",
                "MIG and sharing",
                "the MIG engine, mig-parted's files, stock and rebalancing, MPS, time-slicing",
            ),
            DocsPage(
                "docs/gpu/objects.md",
                "GPUWorkload and MIGStrategy",
                "the objects of `kgwe.nvidia.io`",
            ),
            DocsPage(
                "docs/gpu/kgwe.md",
                "Coming from KGWE",
                "what KGWE describes, row by row, and what is so here",
            ),
            DocsPage(
                "docs/hardware.md", "Verified on hardware", "the transcript of a real NVIDIA H200"
            ),
        ),
        examples=("examples/gpu",),
    ),
    Component(
        name="agent",
        summary="The agent of a GPU node: MIG instances, devices of containers, health.",
        order=75,
        process=ProcessPart(
            name="agent",
            command="kilonova.gpu.process.command:agent",
            deploy="deploy/agent",
        ),
        pages=(
            DocsPage(
                "docs/gpu/agent.md",
                "The node agent of GPUs",
                "what it publishes, GPUs that fail, verification, its gRPC service",
            ),
            DocsPage(
                "docs/gpu/kubelet.md",
                "GPUs for containers",
                "device plugin and DRA driver on a kubelet",
            ),
            DocsPage(
                "docs/gpu/exporter.md",
                "Metrics of GPUs",
                "the exporter for Prometheus, alerts and dashboards",
            ),
        ),
    ),
    Component(
        name="topology",
        summary="The GPUs of the cluster to read: all, a node's, the best set for a number.",
        order=76,
        process=ProcessPart(
            name="topology",
            command="kilonova.gpu.topologyservice.command:topology",
            deploy="deploy/topology",
        ),
        pages=(
            DocsPage(
                "docs/gpu/topology.md",
                "Topology of GPUs in the cluster",
                "a read API over HTTPS and gRPC: nodes, links, the best set for a number of GPUs",
            ),
        ),
    ),
)
