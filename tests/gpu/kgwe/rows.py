"""KGWE row by row: what it describes, what is here, and the tests that show it.

`python -m tests.gpu.kgwe.rows` writes the tables of docs/gpu/kgwe.md.
"""

from tests.harness.feature_rows import DOCS, FeaturePage, Row

GPU, SCHEDULER = "gpu", "scheduler"
_KGWE = f"{GPU}/kgwe"
_CONTROLLERS = f"{GPU}/controllers"
_LIFECYCLE = f"{_CONTROLLERS}/test_workload_lifecycle.py"
_REQUIREMENTS = f"{_KGWE}/test_requirements.py"
_OBJECTS = "api/test_kgwe_objects.py"
_SELECTION = f"{SCHEDULER}/core/gpu/test_selection.py"
_ENGINE = f"{GPU}/mig/test_engine.py"
_MPS = f"{GPU}/sharing/test_mps_sharing.py"
_INVENTORY = f"{GPU}/devices/nvml/test_inventory.py"
_TELEMETRY = f"{GPU}/devices/nvml/test_telemetry.py"
_METRICS = f"{_KGWE}/test_metrics.py"
_AGENT_METRICS = f"{GPU}/exporter/test_kgwe_and_own_metrics.py"
_DEPLOYMENT = f"{_KGWE}/test_deployment.py"

SECTIONS: dict[str, tuple[Row, ...]] = {
    "Shape": (
        Row(
            "a pod is pending, the scheduler asks an extender, the agent makes its MIG instance, "
            "the pod runs",
            "so, with our scheduler, and with kube-scheduler and the extender",
            (
                f"{_CONTROLLERS}/test_kgwe_manifests.py::"
                "test_inference_example_gets_a_slice_that_the_agent_makes",
                f"{SCHEDULER}/extender/test_with_kube_scheduler.py::"
                "test_mig_instances_are_assigned_before_nodes_advertise_them",
                "realnode/test_node_agent.py::"
                "test_agent_serves_pods_and_claims_and_survives_a_kill",
            ),
        ),
        Row(
            "telemetry from DCGM to the agent, to the exporter, to Prometheus, to Grafana and "
            "Alertmanager",
            "so; from DCGM or NVML",
            (
                f"{GPU}/devices/dcgm/test_dcgm.py::"
                "test_agent_has_dcgms_measurements_and_the_backends_processes",
                f"{GPU}/exporter/test_monitoring.py::"
                "test_injected_xid_fires_its_alert_and_every_dashboard_query_has_data",
            ),
        ),
        Row(
            "topology is cached for 30 s",
            "the cache follows the Nodes as they change",
            (
                f"{GPU}/topologyservice/test_topology.py::"
                "test_answers_are_encoded_again_only_after_a_change",
            ),
        ),
        Row(
            "MIG instances are made asynchronously",
            "so; other GPUs change at the same time",
            (f"{GPU}/mig/execution/test_device_calls.py::test_devices_change_at_the_same_time",),
        ),
        Row(
            "telemetry is batched, gRPC channels are pooled",
            "telemetry is aggregated over windows on the node; clients reuse a channel",
            (
                f"{GPU}/agent/telemetry/test_telemetry.py::test_mean_is_weighted_by_time",
                f"{GPU}/process/test_deployed_agent.py::test_agent_does_all_of_it_with_its_account",
            ),
        ),
    ),
    "Objects": (
        Row(
            "GPUWorkload, MIGStrategy and GPUBudget of `kgwe.nvidia.io/v1`, short names, status "
            "subresources",
            "so",
            (
                f"{_OBJECTS}::test_short_names_scope_and_status_are_those_of_kgwe",
                "api/test_definitions.py::test_printer_columns",
            ),
        ),
        Row(
            "every field with its values, limits and defaults",
            "so; `mig.profile` is any profile of the catalog, `DistributedTraining` means Training",
            (
                f"{_OBJECTS}::test_every_value_is_accepted_and_kept",
                f"{_OBJECTS}::test_every_profile_of_its_list_is_accepted",
                f"{_OBJECTS}::test_other_values_are_rejected",
                "api/test_kgwe_fields.py::test_valid_field_is_accepted",
            ),
        ),
        Row(
            "every field of the statuses",
            "so, and written by the controllers",
            (
                f"{_OBJECTS}::test_every_field_of_the_status_is_kept",
                f"{_LIFECYCLE}::test_eight_gpus_are_one_pod_on_one_node",
                f"{_LIFECYCLE}::test_mig_instances_are_placed_and_reported",
                f"{_CONTROLLERS}/test_mig_strategies.py::test_instances_on_nodes_are_measured",
            ),
        ),
        Row(
            "phases Pending, Scheduling, Scheduled, Running, Succeeded, Failed",
            "so",
            (
                f"{_CONTROLLERS}/test_desire.py::test_phase_follows_the_pods",
                f"{_CONTROLLERS}/test_desire.py::test_workload_succeeds_with_its_pods",
                f"{_CONTROLLERS}/test_desire.py::test_workload_fails_with_a_pod",
            ),
        ),
        Row(
            "fields of the Go types: expectedDuration, isPreemptible, memoryProfile, constraints, "
            "allowPartialPlacement, masterAddr, masterPort",
            "so; `localRank` is ignored, since every process gets its own",
            (
                "api/test_kgwe_fields.py::test_valid_field_is_accepted",
                f"{_CONTROLLERS}/test_pods.py::test_constraints_are_added_to_the_template",
                f"{_CONTROLLERS}/test_pods.py::test_processes_find_the_first_pod",
                f"{_LIFECYCLE}::test_colocated_workload_waits_for_the_pod_and_joins_it",
                f"{_LIFECYCLE}::test_maximum_latency_ends_the_wait",
            ),
        ),
        Row(
            "NodeScore by topology, resource, locality and balance",
            "`status.scoreParts` and `kilonova why`",
            (
                f"{_CONTROLLERS}/test_placement.py::test_score_is_the_mean_of_its_parts",
                f"{SCHEDULER}/extender/test_node_filter.py::"
                "test_explain_shows_plugin_scores_devices_and_reasons",
            ),
        ),
        Row(
            "MIGStrategy as `profileDistribution`, and in the product document as "
            "`partitionStrategy`",
            "the first one; the second is rejected with what to write instead",
            (
                f"{GPU}/agent/test_stock.py::test_strategy_puts_instances_in_stock",
                "api/test_kgwe_fields.py::test_invalid_field_is_rejected",
            ),
        ),
        Row(
            "the stock strategy: 70 / 20 / 10 %",
            "an example",
            ("examples/test_gpu_objects.py::test_strategy_is_assigned",),
        ),
        Row(
            "its example manifests",
            "apply unchanged, here and on Kubernetes",
            (
                f"{_CONTROLLERS}/test_workloads_on_servers.py::test_kgwe_manifests_run_unchanged",
                f"{_CONTROLLERS}/test_workloads_on_servers.py::"
                "test_kgwe_manifest_of_the_readme_runs_unchanged",
            ),
        ),
    ),
    "Scheduling": (
        Row(
            "filters by count, memory, architecture, MIG; the code ignores memory, and looks for "
            "the architecture on any free GPU",
            "all are requirements on each GPU that is chosen",
            (f"{_REQUIREMENTS}::test_requirement_decides_on_the_node",),
        ),
        Row(
            "ignored: gpuModel, minBandwidth, nodeSelector, affinity, tolerations, excludeNodes, "
            "colocation, expectedDuration",
            "all count",
            (
                f"{_REQUIREMENTS}::test_requirement_decides_on_the_node",
                f"{_REQUIREMENTS}::test_requirement_that_no_node_meets_is_waited_for",
                f"{_CONTROLLERS}/test_pods.py::test_constraints_are_added_to_the_template",
                f"{_CONTROLLERS}/test_pods.py::test_requirements_are_annotations_for_the_scheduler",
            ),
        ),
        Row(
            "NVLinkRequired gets arbitrary GPUs with 30 points",
            "a requirement: the workload waits",
            (f"{_LIFECYCLE}::test_required_nvlink_waits_where_there_is_none",),
        ),
        Row(
            "weights: topology 40, resource 35, balance 25",
            "so; what pods prefer weighs 100 more",
            (f"{_DEPLOYMENT}::test_score_weights_are_those_of_kgwe",),
        ),
        Row(
            "greedy growth of cliques from every GPU; 900 GB/s for each pair",
            "exact: all sets of a node are compared, and 900 GB/s are the port of a GPU",
            (
                f"{_SELECTION}::test_selection_is_free_and_optimal",
                f"{_SELECTION}::test_bandwidth_of_a_set_is_its_narrowest_cut",
                f"{GPU}/topology/test_matrix.py::test_port_to_a_switch_is_shared_by_all",
            ),
        ),
        Row(
            "SameNUMA and SamePCIeSwitch; no switch is `default`",
            "so; an unknown switch is not shared",
            (f"{_SELECTION}::test_scores", f"{_SELECTION}::test_whole_devices"),
        ),
        Row(
            "three scorers that disagree",
            "one: scheduler, extender, topology service and `why` call the same function",
            (
                f"{GPU}/topologyservice/test_best_set.py::"
                "test_scheduler_binds_to_the_set_that_was_answered",
            ),
        ),
        Row(
            "MIG workloads are charged whole GPUs",
            "they take their slices",
            (f"{_REQUIREMENTS}::test_mig_workload_takes_its_slices_not_whole_gpus",),
        ),
        Row(
            "preemption of anything of type Training, whatever its priority, by deleting an entry "
            "of a map",
            "of lower priorities that allow it, by evictions that respect disruption budgets",
            (
                f"{_REQUIREMENTS}::test_only_lower_priorities_that_allow_it_are_preempted",
                f"{_LIFECYCLE}::test_workload_is_not_preemptible_by_default",
            ),
        ),
        Row(
            "the youngest victim first",
            "the victims with the least lost work",
            (
                f"{SCHEDULER}/core/preemption/test_victim_selection.py::"
                "test_victim_with_least_lost_work_is_evicted",
            ),
        ),
        Row(
            "gangs, in a map that is never read",
            "all pods of a workload start, or none",
            (
                f"{SCHEDULER}/core/placement/test_placer.py::"
                "test_nothing_is_placed_when_minimum_does_not_fit",
                f"{_LIFECYCLE}::test_sixteen_gpus_are_two_pods_that_find_each_other",
            ),
        ),
        Row(
            "a KubeSchedulerConfiguration that a stock kube-scheduler refuses; scores to 100 with "
            "weight 100; three MIG profiles",
            "a configuration with which kube-scheduler starts, scores to 10, every MIG resource",
            (
                f"{SCHEDULER}/extender/test_configuration.py::"
                "test_no_mig_profile_of_any_known_device_is_missing",
                f"{SCHEDULER}/extender/test_messages.py::"
                "test_prioritize_scores_every_node_from_0_to_10",
                f"{SCHEDULER}/extender/test_with_kube_scheduler.py::"
                "test_pods_are_bound_with_devices_that_no_two_share",
            ),
        ),
    ),
    "MIG": (
        Row(
            "every allocation fails; there is no model of placements",
            "the exact model of each product; profiles and starts are read from the driver",
            (
                f"{_ENGINE}::test_instances_are_made_once_and_returned_in_order",
                f"{SCHEDULER}/core/gpu/test_mig.py::test_states_match_nvidia_documentation",
                "catalog/test_mig.py::test_h200_table_matches_nvml",
            ),
        ),
        Row(
            "states Discovered, MIGEnabled, PartitionCreated, Available, Allocated, InUse, "
            "Destroyed, and events",
            "so",
            (f"{_ENGINE}::test_lifecycle_is_reported_state_by_state",),
        ),
        Row(
            "operations may take 60 s; Failed is an end",
            "an operation has a limit, and what has failed is tried again",
            (
                f"{GPU}/mig/execution/test_device_calls.py::"
                "test_device_with_a_hanging_call_is_left_alone_until_it_returns",
                f"{GPU}/agent/test_crashes_and_errors.py::"
                "test_failed_change_is_visible_and_tried_again",
            ),
        ),
        Row(
            "Rebalance emits two events and does nothing",
            "unused instances are replaced, once per interval at most and below the threshold; "
            "pods move where `allowPodEviction` is set, by cost and benefit, within disruption "
            "budgets",
            (
                f"{GPU}/agent/test_rebalancing.py::"
                "test_small_instance_leaves_a_gpu_that_a_pod_then_gets_whole",
                f"{SCHEDULER}/consolidation/test_mig_rebalancing.py::"
                "test_instance_moves_and_frees_a_gpu",
                f"{SCHEDULER}/consolidation/test_mig_rebalancing.py::test_disruption_budget_holds",
                f"{GPU}/agent/test_stock.py::"
                "test_dynamic_strategy_replaces_unused_instances_once_per_interval",
                f"{SCHEDULER}/core/gpu/test_rebalancing.py::test_moves_are_possible_in_their_order_and_pay_off",
                f"{SCHEDULER}/core/gpu/test_rebalancing.py::test_cost_of_a_restart_may_exceed_the_benefit",
            ),
        ),
        Row(
            "prewarming",
            "from the requests that the node has seen, before a restart of its agent, too",
            (
                f"{GPU}/agent/test_prewarming.py::test_what_was_learnt_survives_a_restart",
                f"{GPU}/agent/test_prewarming.py::test_next_instance_exists_before_its_pod_comes",
                f"{GPU}/agent/test_prewarming.py::test_demand_that_ended_is_forgotten",
            ),
        ),
        Row(
            "a strategy has fractions with a sum of at most 1.01 and profiles of a list of ten",
            "the same sum; profiles of the catalog, and those that the GPUs have",
            (
                f"{GPU}/admission/test_workload_admission.py::"
                "test_strategy_with_an_unknown_profile_is_rejected",
                f"{_CONTROLLERS}/test_mig_strategies.py::"
                "test_profile_that_the_gpu_lacks_is_named_with_those_that_it_has",
            ),
        ),
    ),
    "Sharing": (
        Row(
            "MPS flips a flag; the sum of thread percentages is unchecked",
            "a daemon for each GPU, started and stopped with its shares; two sums are admitted",
            (
                f"{_MPS}::test_first_share_starts_a_daemon_and_the_last_one_stops_it",
                f"{_MPS}::test_sums_are_admitted_and_a_refusal_changes_nothing",
                f"{GPU}/sharing/test_shares.py::test_both_sums_are_admitted",
            ),
        ),
        Row(
            "a number of clients for each GPU",
            "the limit of the server",
            (f"{GPU}/sharing/test_shares.py::test_clients_of_a_server_are_limited",),
        ),
        Row(
            "promised: automatic daemons, quality of service, memory isolation, graceful "
            "degradation",
            "shares of threads and memory for each pod; a daemon that crashed is started again",
            (
                f"{_MPS}::test_server_has_the_largest_share_as_ceiling",
                f"{_MPS}::test_crashed_daemon_is_started_again",
            ),
        ),
        Row(
            "policy by workload type, else isolation, else a profile, else MPS; time-slicing is a "
            "value without code",
            "a ladder with the reason for each rung, time-slicing included",
            (
                f"{GPU}/sharing/test_ladder.py::test_policy_for_a_workload_type_comes_first",
                f"{GPU}/sharing/test_ladder.py::test_rung_and_reason",
                f"{GPU}/sharing/test_time_slicing.py::test_length_of_turns_is_set_by_nvidia_smi",
            ),
        ),
    ),
    "Discovery and agent": (
        Row(
            "NVMLClient is an interface without implementation; every node would show the GPUs of "
            "this machine",
            "NVML, simulated hardware, recordings and DCGM; an agent on each node",
            (
                f"{_INVENTORY}::test_recorded_h200_is_described_completely",
                f"{GPU}/devices/test_recorded.py::test_backend_is_selected_by_its_name",
            ),
        ),
        Row(
            "GPUDevice: identity, memory, compute, NVLink by peer, PCIe, NUMA",
            "so, but for TFLOPs, which are facts of the catalog's models",
            (
                f"{_INVENTORY}::test_direct_links_are_counted_by_their_remote",
                f"{_INVENTORY}::test_devices_behind_nvswitches_share_their_port",
                f"{_INVENTORY}::test_pcie_switch_is_its_upstream_port",
                f"{_INVENTORY}::test_numa_node_comes_from_the_kernel_where_nvml_has_none",
            ),
        ),
        Row(
            "utilisation: GPU, memory, encoder, decoder, power, temperature",
            "so, and SM, tensor and memory activity; fans are not read",
            (
                f"{_TELEMETRY}::test_reading_has_all_units_right",
                f"{_TELEMETRY}::test_counters_need_two_samples",
            ),
        ),
        Row(
            "health Healthy, Degraded, Unhealthy, Unknown with reasons, XIDs, throttling",
            "so; an unhealthy GPU is drained, reset and observed",
            (
                f"{GPU}/health/test_gpu_health.py::test_reading_makes_the_health",
                f"{GPU}/agent/test_local_agent.py::"
                "test_fatal_xid_drains_resets_and_recovers_the_gpu",
                f"{GPU}/agent/test_local_agent.py::"
                "test_transient_xid_is_told_and_nothing_else_happens",
            ),
        ),
        Row(
            "a GPU counts as available below 90 % utilisation, assigned or not",
            "if it is healthy and not assigned",
            (
                f"{GPU}/topologyservice/test_topology.py::"
                "test_gpus_of_pods_are_not_free_until_the_pods_are_gone",
            ),
        ),
        Row(
            "NodeTopology: a matrix of NVL, PIX, PHB, SOC with GB/s",
            "the matrix of `nvidia-smi topo -m`",
            (
                f"{GPU}/topology/test_matrix.py::test_machines_have_their_paths",
                f"{GPU}/commands/test_machine_commands.py::test_topology_is_drawn_as_a_matrix",
            ),
        ),
        Row(
            "ClusterTopology and TopologyHint",
            "`kilonova run topology`: the cluster, a node, the best set",
            (
                f"{GPU}/topologyservice/test_grpc.py::test_cluster_node_and_best_set_are_answered",
                f"{GPU}/topologyservice/test_topology.py::"
                "test_cluster_and_nodes_are_described_alike",
            ),
        ),
        Row(
            "events NodeAdded, GPUAdded, MIGChanged, HealthChanged in a channel that blocks after "
            "100",
            "changes of Nodes, and Events of Kubernetes",
            (
                f"{GPU}/agent/test_local_agent.py::test_node_gets_all_that_is_known_of_its_gpus",
                f"{GPU}/agent/test_local_agent.py::test_all_gpus_lost_taints_the_node",
            ),
        ),
        Row(
            "refreshed every 30 s, telemetry every 5 s",
            "by events of the driver; telemetry every 2 to 30 s, as something runs",
            (
                f"{GPU}/devices/nvml/test_events.py::test_waiting_events_come_at_once_and_in_order",
                f"{GPU}/agent/telemetry/test_telemetry.py::test_interval_follows_what_happens",
                f"{GPU}/agent/test_local_agent.py::test_agent_at_rest_writes_nothing",
            ),
        ),
    ),
    "Metrics": (
        Row(
            "port 9400, `/metrics` and `/health`",
            "so; the next port where DCGM's exporter has it",
            (
                f"{_DEPLOYMENT}::test_ports_are_those_of_kgwe",
                f"{GPU}/exporter/test_exposition.py::"
                "test_server_takes_the_next_port_where_the_first_is_taken",
            ),
        ),
        Row(
            "its metrics with their labels and buckets",
            "so; those of cost are not there yet",
            (
                f"{_METRICS}::test_every_metric_has_the_labels_of_kgwe",
                f"{_METRICS}::test_buckets_are_those_of_kgwe",
            ),
        ),
        Row(
            "one label `node/uuid`, values unescaped",
            "the labels that are declared, escaped",
            (
                f"{GPU}/exporter/test_exposition.py::test_labels_are_escaped",
                f"{GPU}/exporter/test_exposition.py::test_each_series_is_there_once",
            ),
        ),
        Row(
            "the utilisation of a MIG instance is 100 if it is allocated, else 0",
            "it is measured, relative to what the instance has",
            (f"{_AGENT_METRICS}::test_utilisation_of_an_instance_has_both_forms",),
        ),
        Row(
            "the topology score of a node: 50, 30 for NVSwitch, 20 for NVLink",
            "so",
            (f"{_AGENT_METRICS}::test_topology_and_links_are_those_of_the_inventory",),
        ),
        Row(
            "the duration of workloads is never written",
            "at their end",
            (
                f"{_CONTROLLERS}/test_workload_metrics.py::"
                "test_metrics_follow_workloads_from_the_queue_to_their_end",
            ),
        ),
        Row(
            "a dashboard `kgwe-dashboard`, whose queries by node are empty; no alert rules",
            "each query is checked against a Prometheus; alert rules with tests; no panels of cost",
            (
                f"{GPU}/exporter/test_monitoring.py::"
                "test_injected_xid_fires_its_alert_and_every_dashboard_query_has_data",
                f"{GPU}/exporter/test_monitoring.py::"
                "test_promtool_accepts_the_rules_and_their_unit_tests",
            ),
        ),
    ),
    "Running it": (
        Row(
            "nothing starts: there is no `cmd`",
            "`kilonova up`; `kilonova run operator`, `scheduler`, `extender`, `agent`, `topology`",
            (
                f"{GPU}/process/test_deployed_agent.py::test_agent_does_all_of_it_with_its_account",
                f"{GPU}/topologyservice/test_deployed_topology.py::"
                "test_readers_are_answered_and_others_are_not",
            ),
        ),
        Row(
            "ports: API 8443, agent 50052, exporter 9400",
            "so; health and metrics of processes on 8081, the extender on 8888",
            (f"{_DEPLOYMENT}::test_ports_are_those_of_kgwe",),
        ),
        Row(
            "leader election with 15, 10 and 2 s; two schedulers, of which one stays",
            "so",
            (
                f"{_DEPLOYMENT}::test_leader_election_has_the_times_of_kgwe",
                f"{SCHEDULER}/process/test_deployed_scheduler.py::"
                "test_one_of_two_replicas_stays_when_nodes_are_drained",
            ),
        ),
        Row(
            "ClusterRoles of controller and scheduler; of the agent in a diagram alone",
            "each process has exactly the permissions that it uses",
            (
                f"{GPU}/process/test_deployed_agent.py::test_account_has_no_other_permissions",
                f"{GPU}/process/test_deployed_objects.py::"
                "test_service_account_has_all_permissions_of_the_controllers",
            ),
        ),
        Row("a Helm chart with templates of the scheduler alone", "kustomizations below `deploy`"),
        Row(
            "queries of the topology within 10 ms, decisions within 100 ms",
            "`python -m bench gpu` and `bench scheduler` measure both",
        ),
        Row(
            "ML optimizer: classifier, predictor, hints",
            "not yet",
        ),
        Row("cost engine and budgets", "not yet: a GPUBudget is stored, and nothing acts on it"),
    ),
}

PAGE = FeaturePage(DOCS / "gpu" / "kgwe.md", "KGWE", SECTIONS)

if __name__ == "__main__":
    PAGE.write()
