"""Supernova and Nebula row by row: what they do, what is here, and the tests that show it.

`python -m tests.fleet.checklist.rows` writes the tables of docs/fleet/supernova.md.
"""

from tests.harness.feature_rows import DOCS, FeaturePage, Row

_INSTANCE = "instances/controllers/instance"
_REPAIR = f"{_INSTANCE}/test_repair.py"
_ON_SERVERS = f"{_INSTANCE}/test_instances_on_servers.py"
_LARGE = f"{_INSTANCE}/test_large_instance.py"
_LIFECYCLE = f"{_INSTANCE}/test_lifecycle.py"
_PLUGIN_FAILURES = f"{_INSTANCE}/test_plugin_failures.py"
_KUBECTL = "instances/test_kubectl_commands.py"
_DEPLOYMENTS = "instances/deployment/test_deployments.py"
_FLEET = "fleet/manager/test_fleet.py"
_LADDER = "fleet/test_repair_across_clusters.py"
_FAILOVER = "fleet/planning/test_failover.py"
_ROLLOUT = "fleet/planning/test_rollout.py"
_STORE = "fleet/store"
_DEPLOYED_FLEET = "fleet/process/test_deployed_fleet.py"
_FIT = "cli/test_fit_commands.py"
_FIT_ON_SERVERS = "cli/test_fit_commands_on_servers.py"
_DEFINITIONS = "api/test_definitions.py"
_TOKENIZERS = "artifacts/tokenizers/test_tokenizer_store.py"
_TOKENIZER_NAMES = "artifacts/tokenizers/test_tokenizer_names.py"
_ALLOCATION = "instances/alloc/test_allocation.py"

SECTIONS: dict[str, tuple[Row, ...]] = {
    "In a cluster": (
        Row(
            "N1: a controller in each cluster (Supernova) allocates and repairs model instances",
            "so: a part of the operator, or alone as `kilonova supernova`",
            (
                f"{_LIFECYCLE}::test_instance_becomes_ready_in_the_tightest_domain",
                f"{_LIFECYCLE}::test_two_instances_never_share_an_accelerator",
                f"{_REPAIR}::test_node_is_replaced_by_a_spare_one_of_the_same_domain",
                f"{_ON_SERVERS}::test_instance_runs_and_is_repaired",
                "instances/process/test_supernova.py::"
                "test_process_makes_instances_and_what_they_become",
            ),
        ),
        Row(
            "N5: a lost instance is repaired in place, then relocated in its cluster, then "
            "allocated to another cluster, in that order",
            "so; between the first two, a dead node is swapped for a spare one of the same domain",
            (
                f"{_LADDER}::test_steps_of_the_ladder_follow_each_other_up_to_another_cluster",
                "instances/repair/test_ladder.py::test_next_step",
                f"{_REPAIR}::test_lost_pods_are_recreated_beside_the_others",
                f"{_REPAIR}::test_instance_is_relocated_where_its_domain_has_no_spare_node",
                f"{_REPAIR}::test_instance_without_any_place_is_given_up_and_recovers",
                f"{_FLEET}::test_instance_that_its_cluster_cannot_place_runs_elsewhere",
            ),
        ),
        Row(
            "N7: pods are agents or conductors, with the labels "
            "`supernova.groq.io/model-instance` and `supernova.groq.io/role`",
            "so; agents also have `supernova.groq.io/agent-index`",
            (
                "instances/builders/test_objects.py::"
                "test_agent_pod_names_its_instance_and_what_it_joins",
                f"{_KUBECTL}::test_commands_print_what_their_users_expect",
            ),
        ),
        Row(
            "N8: events `AgentPodsRecreated` (recreated N agent pods), `AllocationFailed` (could "
            "not allocate resources), `InstanceRelocated` (moved to another cluster)",
            "so; an instance that moves within its cluster has `InstanceRelocated`, too: the "
            "message says from where to where",
            (
                f"{_LARGE}::test_dead_node_costs_only_its_own_agents",
                f"{_REPAIR}::test_instance_is_relocated_where_its_domain_has_no_spare_node",
                f"{_REPAIR}::test_instance_without_any_place_is_given_up_and_recovers",
                f"{_LADDER}::test_steps_of_the_ladder_follow_each_other_up_to_another_cluster",
                f"{_KUBECTL}::test_commands_print_what_their_users_expect",
            ),
        ),
        Row(
            "N18: instances of 108 agents: a gang of hundreds, of which a partial repair recreates "
            "only the missing ones",
            "so; the others keep their nodes and accelerators. `python -m bench fleet` measures it",
            (
                f"{_LARGE}::test_dead_node_costs_only_its_own_agents",
                "instances/repair/test_ladder.py::test_healthy_members_are_never_replaced",
                "bench/test_fleet_swap.py::test_swap_is_measured",
            ),
        ),
    ),
    "Across clusters": (
        Row(
            "N2: a global manager (Nebula) over all clusters, one elected leader",
            "so: `kilonova nebula`; each write carries the leader's epoch, and members refuse "
            "those of a former leader",
            (
                f"{_FLEET}::test_release_runs_in_all_members",
                f"{_FLEET}::test_deposed_manager_changes_nothing",
                f"{_STORE}/test_election.py::test_successor_leads_within_two_seconds_after_the_lease",
                f"{_STORE}/test_election.py::test_paused_leader_that_wakes_is_refused",
                f"{_STORE}/test_epoch_guard.py::test_lower_epoch_is_refused_also_after_a_restart",
                f"{_DEPLOYED_FLEET}::test_release_is_rolled_out_by_deployed_manager_and_agent",
            ),
        ),
        Row(
            "N3: multi-regional leader election on object storage; "
            "`--global-leader-elect-endpoint` is changed when the region of the storage is lost",
            "so, also while managers run; with two of three endpoints, the loss of one changes "
            "nothing. Buckets, a Kubernetes API, or directories",
            (
                f"{_STORE}/test_election_on_stores.py::"
                "test_lead_is_handed_over_and_moves_to_another_store",
                f"{_STORE}/test_election.py::test_lost_endpoint_is_replaced_without_its_state",
                f"{_STORE}/test_election.py::test_changed_endpoint_takes_the_state_along",
                f"{_STORE}/test_election.py::test_lost_region_of_three_changes_nothing",
                f"{_STORE}/test_election.py::"
                "test_manager_with_the_former_endpoint_steps_down_and_stays_down",
                f"{_STORE}/test_linearizability.py::test_lease_store_is_linearizable",
                f"{_STORE}/test_election_machine.py::TestManagersOnAFailingNetwork",
                f"{_FLEET}::test_another_region_takes_over_with_its_own_hub",
                "fleet/commands/test_endpoint.py::"
                "test_replaced_store_is_reclaimed_and_keeps_its_epoch",
            ),
        ),
        Row(
            "N4: when a cluster is lost, its last observed replicas are assumed, and deployments "
            "to other clusters are never blocked",
            "so, until the time that the deployment allows is over; then its instances run "
            "elsewhere",
            (
                f"{_FAILOVER}::test_suspect_member_keeps_its_instances_and_others_go_on",
                f"{_ROLLOUT}::test_unreachable_cluster_is_not_waited_for",
                f"{_FAILOVER}::test_scaling_down_does_not_wait_for_a_suspect_member",
                f"{_FAILOVER}::test_half_of_the_members_gone_at_once_freezes_the_fleet",
                f"{_FLEET}::test_lost_member_is_replaced_and_drained_when_it_returns",
                "fleet/test_failover_story.py::test_failover_story_runs_as_written",
                f"{_FLEET}::test_members_go_on_without_manager_and_without_store",
            ),
        ),
        Row(
            "N13: fast rollbacks by mask targets in gitops, without reverting history",
            "so: `spec.mask`, added by a target of kustomize, moves every cluster at once; "
            "`kilonova fleet mask` does without gitops",
            (
                "fleet/test_mask_targets.py::"
                "test_mask_targets_leave_a_release_and_a_cluster_until_they_are_removed",
                f"{_ROLLOUT}::test_masked_release_is_left_by_all_clusters_at_once",
                f"{_ROLLOUT}::test_mask_wins_in_a_frozen_fleet",
                "fleet/commands/test_release_changes.py::test_mask_says_where_clusters_go",
            ),
        ),
    ),
    "Objects, commands and files": (
        Row(
            "N6: InferenceEngineInstance (`iei`: spec.model, spec.targetAgents; "
            "status.readyAgents, status.pendingAgents), InferenceEngineDeployment (`ied`), "
            "Release (`gr`) and global Deployment (`gd`), with printer columns",
            "so, with the same columns",
            (
                f"{_KUBECTL}::test_commands_print_what_their_users_expect",
                f"{_DEFINITIONS}::test_printer_columns",
                "api/test_definitions_on_servers.py::test_list_shows_printer_columns",
                "api/test_inference_engine_fields.py::test_valid_object_is_stored_with_defaults",
            ),
        ),
        Row(
            "N9: `kubectl fit --context` shows the topology of a cluster",
            "so: domains, nodes and accelerators, and which instance holds which; with `--build` "
            "also whether another one fits",
            (
                f"{_KUBECTL}::test_commands_print_what_their_users_expect",
                f"{_FIT_ON_SERVERS}::test_picture_and_allocation_on_both_servers",
                "instances/fit/test_picture.py::test_wide_picture_in_ascii",
                "instances/fit/test_picture.py::test_thousands_of_nodes_are_folded",
                f"{_FIT}::test_build_is_marked_and_answered",
            ),
        ),
        Row(
            "N10: `alloc --build` allocates offline; `--save-build-output-path` saves the data of "
            "the build for tests",
            "so; what it answers for a snapshot is where the instance is placed",
            (
                f"{_FIT}::test_alloc_is_a_program",
                f"{_FIT}::test_allocation_is_printed_and_saved",
                "instances/alloc/test_offline_equals_live.py::"
                "test_instance_is_placed_where_alloc_said",
                f"{_ALLOCATION}::test_answer_is_saved_with_its_inputs",
                f"{_ALLOCATION}::test_saved_build_is_one",
            ),
        ),
        Row(
            "N11: inputs are the deployment, labels of nodes for the topology, and the data of the "
            "build; outputs are agent and conductor pods, status and events",
            "so; builds are read from a directory, S3 or an OCI registry, and verified",
            (
                f"{_DEPLOYMENTS}::test_instances_are_created_with_labels_owner_and_template",
                f"{_ALLOCATION}::test_tightest_takes_the_smallest_domain_that_fits",
                f"{_PLUGIN_FAILURES}::test_build_says_what_the_spec_leaves_out",
                "artifacts/builds/test_build_sources.py::test_build_is_loaded_as_it_was_saved",
                "artifacts/builds/test_build_sources.py::test_damaged_build_is_rejected",
                f"{_ON_SERVERS}::test_instance_runs_and_is_repaired",
            ),
        ),
        Row(
            "N12: metrics of ready and pending agents, of allocations that succeed and fail, and "
            "of repairs",
            "so; and of clusters, replicas and leaders",
            (
                f"{_PLUGIN_FAILURES}::test_metrics_count_allocations_and_repairs",
                f"{_LADDER}::test_steps_of_the_ladder_follow_each_other_up_to_another_cluster",
                f"{_FLEET}::test_metrics_show_clusters_replicas_and_leaders",
            ),
        ),
        Row(
            "N14: manifests for kustomize and gitops",
            "so: `kubectl apply -k` of `deploy/operator`, `deploy/fleet` and `deploy/member`; the "
            "example of a fleet is a repository with a base, production and mask targets",
            (
                "examples/test_fleet_examples.py::test_examples_are_accepted",
                f"{_DEPLOYED_FLEET}::test_release_is_rolled_out_by_deployed_manager_and_agent",
                f"{_DEPLOYED_FLEET}::test_service_accounts_have_no_other_permissions",
                "instances/process/test_deployed_instances.py::"
                "test_service_account_has_all_permissions_of_the_controllers",
            ),
        ),
        Row(
            "N15: extension points: allocation strategies, repair policies, tokenizers, plug-ins "
            "of kubectl fit",
            "so: entry points `kilonova.allocation`, `kilonova.repair`, `kilonova.fit`; a broken "
            "one is named and stops no other",
            (
                "instances/test_plugins.py::test_function_is_found_by_name",
                f"{_ALLOCATION}::test_constraints_of_a_strategy_reach_the_scheduler",
                f"{_PLUGIN_FAILURES}::test_unknown_strategy_is_named_and_stops_no_other_instance",
                f"{_PLUGIN_FAILURES}::test_ladder_repairs_where_the_policy_does_not_work",
                f"{_FIT}::test_plugins_of_installed_packages_are_asked",
                f"{_TOKENIZERS}::test_add_leaves_cache_info_and_test_cases_behind",
            ),
        ),
        Row(
            "N16: a registry of tokenizers: `org/model` or `org_model` in lower case, "
            "`tokenizer_cache_info.json`, `runtimes.<name>.hf_model_path`, tests",
            "so; a Release that names an unknown or broken one is rejected",
            (
                f"{_TOKENIZER_NAMES}::test_both_names_have_one_normalised_form",
                f"{_TOKENIZER_NAMES}::test_configuration_names_the_tokenizer_of_each_runtime",
                f"{_TOKENIZERS}::test_added_tokenizer_is_found_by_both_names",
                f"{_TOKENIZERS}::test_add_leaves_cache_info_and_test_cases_behind",
                f"{_TOKENIZERS}::test_broken_tokenizer_is_rejected_with_the_reason",
                "instances/engine/test_engine_instance.py::"
                "test_release_with_an_unknown_tokenizer_is_rejected",
            ),
        ),
        Row(
            "N17: versioned `v1` schemas, standard labels, native events",
            "so: group `inference-engine.groq.io/v1`, labels `supernova.groq.io/*`",
            (
                f"{_DEFINITIONS}::test_definitions_match_the_generator",
                f"{_DEFINITIONS}::test_every_field_has_a_description",
                "api/test_definitions_on_servers.py::test_kubernetes_accepts_the_schemas",
                "api/test_inference_engine_fields.py::"
                "test_invalid_object_is_rejected_with_the_field",
                f"{_KUBECTL}::test_commands_print_what_their_users_expect",
            ),
        ),
    ),
}

PAGE = FeaturePage(DOCS / "fleet" / "supernova.md", "Supernova and Nebula", SECTIONS)

if __name__ == "__main__":
    PAGE.write()
