"""Registrations of the embedded cluster's own parts, which `kilonova.local.cluster` builds."""

from kilonova.component import Component, DocsPage, EmbeddedPart, Flag

COMPONENTS = (
    Component(
        name="api",
        summary="The Kubernetes API server of `kilonova up`.",
        order=10,
        embedded=EmbeddedPart(required=True),
        pages=(
            DocsPage(
                "docs/embedded.md",
                "The embedded cluster",
                "`kilonova up`: what it provides, how it differs from Kubernetes, durability, "
                "virtual time",
            ),
        ),
        examples=("examples/crd.yaml", "examples/pod.yaml"),
    ),
    Component(
        name="controllers",
        summary="The controllers of kube-controller-manager; --controllers selects them.",
        order=20,
        embedded=EmbeddedPart(required=True),
    ),
    Component(
        name="nodes",
        summary="Simulated GPU nodes.",
        order=30,
        embedded=EmbeddedPart(
            flags=(
                Flag(
                    name="nodes",
                    type="text",
                    metavar="small|large|FILE",
                    help="Simulated nodes: 'small' (34 GPU machines), 'large' (2,000), or a fleet "
                    "file.  [default: small]",
                    parse="kilonova.cli.up.options:resolve_fleet",
                    complete="kilonova.cli.up.options:complete_fleets",
                ),
            ),
        ),
        pages=(
            DocsPage(
                "docs/simulated-nodes.md",
                "Simulated nodes",
                "the fleet file, nodes that come and go, and simulated failures",
            ),
        ),
        examples=("examples/fleet.yaml",),
    ),
    Component(
        name="process-node",
        summary="This machine as a node, whose pods run as processes.",
        order=40,
        embedded=EmbeddedPart(
            help="Register this machine as a node whose pods run as processes (node selector "
            "kilonova.dev/node-kind=process).",
            flags=(
                Flag(
                    name="allow-host-path",
                    type="texts",
                    metavar="PATH",
                    help="Allow hostPath volumes at PATH (absolute) and below it for pods on this "
                    "machine; may be repeated.",
                    parse="kilonova.cli.up.options:resolve_host_path",
                ),
                Flag(
                    name="images",
                    type="text",
                    metavar="FILE",
                    help="How images are run on this machine, which pulls none: a YAML file of "
                    "entries, before the table that is shipped.",
                    parse="kilonova.cli.up.options:resolve_image_table",
                ),
            ),
        ),
        pages=(
            DocsPage(
                "docs/process-node.md",
                "The process node",
                "pods on this machine: volumes, Services, restarts, limits",
            ),
        ),
        examples=("examples/web.yaml", "examples/images.yaml"),
    ),
)
