"""KGWE's example manifests: their fields and values are those of its examples, README and product
document; claims and commands are shortened."""

from typing import Any

TRAINING: Any = {
    "apiVersion": "kgwe.nvidia.io/v1",
    "kind": "GPUWorkload",
    "metadata": {"name": "llm-fsdp-training", "labels": {"team": "foundation-models"}},
    "spec": {
        "gpuRequirements": {
            "count": 8,
            "minMemoryGB": 80,
            "gpuModel": "H100",
            "topology": {"preference": "NVLinkOptimal", "minBandwidthGBps": 600},
        },
        "workloadType": "Training",
        "framework": "PyTorch",
        "distributedConfig": {"strategy": "FSDP", "worldSize": 8, "backend": "NCCL"},
        "priority": 100,
        "preemptible": False,
        "podTemplate": {
            "spec": {
                "containers": [
                    {
                        "name": "trainer",
                        "image": "nvcr.io/nvidia/pytorch:24.01-py3",
                        "command": [
                            "torchrun",
                            "--nproc_per_node=8",
                            "--master_addr=$(MASTER_ADDR)",
                            "--master_port=29500",
                            "train.py",
                        ],
                        "env": [
                            {"name": "NCCL_DEBUG", "value": "INFO"},
                            {"name": "NCCL_IB_DISABLE", "value": "0"},
                        ],
                        "resources": {
                            "limits": {"nvidia.com/gpu": 8, "memory": "512Gi", "cpu": 64},
                            "requests": {"nvidia.com/gpu": 8, "memory": "256Gi", "cpu": 32},
                        },
                        "volumeMounts": [{"name": "shm", "mountPath": "/dev/shm"}],
                    }
                ],
                "volumes": [{"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "64Gi"}}],
                "restartPolicy": "OnFailure",
            }
        },
    },
}
INFERENCE: Any = {
    "apiVersion": "kgwe.nvidia.io/v1",
    "kind": "GPUWorkload",
    "metadata": {"name": "llm-inference", "labels": {"team": "inference-platform"}},
    "spec": {
        "gpuRequirements": {"count": 1, "mig": {"profile": "2g.20gb", "count": 1}},
        "workloadType": "Inference",
        "framework": "Triton",
        "priority": 50,
        "preemptible": True,
        "podTemplate": {
            "spec": {
                "containers": [
                    {
                        "name": "inference",
                        "image": "nvcr.io/nvidia/tritonserver:24.01-py3",
                        "args": ["tritonserver", "--http-port=8000"],
                        "ports": [{"containerPort": 8000, "name": "http"}],
                        "resources": {
                            "limits": {"nvidia.com/mig-2g.20gb": 1, "memory": "32Gi", "cpu": 8}
                        },
                    }
                ]
            }
        },
    },
}
STRATEGY: Any = {
    "apiVersion": "kgwe.nvidia.io/v1",
    "kind": "MIGStrategy",
    "metadata": {"name": "inference-optimized"},
    "spec": {
        "nodeSelector": {"gpu.nvidia.com/class": "H100", "node-pool": "inference"},
        "gpuSelector": {"model": "H100", "migCapable": True},
        "profileDistribution": {"1g.10gb": 0.70, "2g.20gb": 0.20, "3g.40gb": 0.10},
        "allowDynamicReconfig": True,
        "rebalanceInterval": "5m",
        "minUtilizationThreshold": 0.3,
        "priority": 10,
    },
}
README: Any = {
    "apiVersion": "kgwe.nvidia.io/v1",
    "kind": "GPUWorkload",
    "metadata": {"name": "llm-training"},
    "spec": {
        "gpuRequirements": {
            "count": 8,
            "minMemoryGB": 40,
            "topology": {"preference": "NVLinkOptimal", "minBandwidthGBps": 600},
        },
        "workloadType": "Training",
        "framework": "PyTorch",
        "distributedConfig": {"strategy": "FSDP", "worldSize": 8, "backend": "NCCL"},
        "podTemplate": {
            "spec": {
                "containers": [
                    {
                        "name": "training",
                        "image": "nvcr.io/nvidia/pytorch:24.01-py3",
                        "command": ["torchrun", "--nproc_per_node=8", "train.py"],
                    }
                ]
            }
        },
    },
}
PRODUCT_DOCUMENT: Any = {
    "apiVersion": "kgwe.nvidia.io/v1",
    "kind": "GPUWorkload",
    "metadata": {"name": "llm-training-job"},
    "spec": {
        "gpuRequirements": {
            "count": 8,
            "minMemoryGB": 40,
            "topology": {"preference": "NVLinkOptimal", "minBandwidthGBps": 600},
        },
        "workloadType": "DistributedTraining",
        "framework": "PyTorch",
    },
}
BUDGET: Any = {
    "apiVersion": "kgwe.nvidia.io/v1",
    "kind": "GPUBudget",
    "metadata": {"name": "ml-research-budget"},
    "spec": {
        "limit": "10000",
        "currency": "USD",
        "period": "Monthly",
        "scope": "Namespace",
        "alertsEnabled": True,
        "alertThresholds": [0.5, 0.75, 0.9, 1.0],
        "enforcementPolicy": "Alert",
    },
}
