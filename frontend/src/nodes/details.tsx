/** The details of one node: facts, GPUs with the pods that hold them, other pods, events, actions. */
import type { JSX } from "preact";
import { podHref } from "../app/links";
import { type Action, actionsAllowed, requestConfirmation } from "../data/actions";
import type { PodRow } from "../data/rows";
import { eventsByObject } from "../data/store";
import { ActionButtons } from "../described/actions";
import { ContributedSections } from "../described/sections";
import { bytes, money, number, percent, pluralize } from "../lib/format";
import { DeletePod } from "../pods/delete-button";
import { Age, Empty } from "../ui/controls";
import { EventList } from "../ui/event-list";
import { LiveObject } from "../ui/live-object";
import { Facts, Panel, Section } from "../ui/panel";
import { State } from "../ui/state";
import { areLoaded, NotFoundNotice } from "../ui/table-notices";
import { cpuRequested } from "./cell-colours";
import type { FleetNode } from "./gpu-allocations";
import { GpuItem, WorkloadLink } from "./gpu-item";
import { allocations, refreshTick } from "./live-allocations";
import { nodeState, STATE_TONE } from "./state";
import { locationText, nodeStateText } from "./text";

export function NodeDetails({ id, onClose }: { id: string; onClose: () => void }): JSX.Element {
  refreshTick.value;
  const node = allocations.nodes.get(id);
  if (!node) {
    return (
      <Panel title={id} onClose={onClose}>
        {areLoaded(["nodes"]) ? (
          <Empty title="Node not found">It may have been removed from the cluster.</Empty>
        ) : (
          <NotFoundNotice of={["nodes"]} what="The node" />
        )}
      </Panel>
    );
  }
  const { row } = node;
  const state = nodeState(row);
  const podsWithoutGpus = [...node.pods.values()].filter((pod) => !pod.gpus && !pod.devices?.length);
  return (
    <Panel
      title={row.id}
      subtitle={locationText(node) || (row.kind === "process" ? "this machine" : undefined)}
      badge={<State tone={STATE_TONE[state]}>{nodeStateText(row)}</State>}
      actions={actionsAllowed.value && <Actions node={node} />}
      onClose={onClose}
    >
      {row.problem && <p class="node-problem">{row.problem}</p>}
      <NodeFacts node={node} />
      {node.gpus.length > 0 && (
        <Section title="GPUs" aside={`${number(node.allocated)} of ${node.gpus.length} allocated`}>
          <ul class="gpu-list">
            {node.gpus.map((_, index) => (
              <GpuItem key={index} node={node} index={index} />
            ))}
          </ul>
        </Section>
      )}
      <Section title={node.gpus.length ? "Pods without GPUs" : "Pods"} aside={pluralize(podsWithoutGpus.length, "pod")}>
        {podsWithoutGpus.length ? <Pods pods={podsWithoutGpus} /> : <p class="muted">None.</p>}
      </Section>
      {row.taints && (
        <Section title="Taints">
          <ul class="node-taints">
            {row.taints.map((taint) => (
              <li key={taint}>
                <code>{taint}</code>
              </li>
            ))}
          </ul>
        </Section>
      )}
      <ContributedSections table="nodes" id={id} />
      <Section title="Events">
        <EventList events={[...eventsByObject.get(`Node/${id}`).values()]} />
      </Section>
      <LiveObject table="nodes" id={id} />
    </Panel>
  );
}

function NodeFacts({ node }: { node: FleetNode }): JSX.Element {
  const { row, usage } = node;
  let requestedMemory = 0;
  for (const pod of node.pods.values()) requestedMemory += pod.memory ?? 0;
  const gpus = row.gpus ? `${row.gpus} × ${row.product ?? "GPU"}` : "none";
  const links = row.nvlinkDomain ? `${row.fabric || "NVLink"}, domain ${row.nvlinkDomain}` : row.fabric;
  const idle = node.gpus.length - node.allocated;
  return (
    <Facts
      of={[
        ["GPUs", row.gpuMemory ? `${gpus}, ${bytes(row.gpuMemory * 2 ** 20)}` : gpus],
        ["Links", links],
        [
          "Price",
          row.nodePrice === undefined
            ? "unknown"
            : `${money(row.nodePrice)}/h${row.price && idle > 0 ? `, ${money(row.price * idle)} idle` : ""}`,
        ],
        [
          "CPU cores",
          `${number(row.cpu)}, ${percent(cpuRequested(node))} requested${usage ? `, ${percent(usage.cpu)} used` : ""}`,
        ],
        [
          "Memory",
          `${bytes(row.memory)}, ${percent(row.memory ? requestedMemory / row.memory : 0)} requested${usage ? `, ${percent(usage.memory)} used` : ""}`,
        ],
        ["Pods", row.maxPods ? `${node.pods.size} of ${row.maxPods}` : String(node.pods.size)],
        ["Kind", row.kind === "process" ? "this machine" : row.kind === "sim" ? "simulated" : row.kind],
        ["Age", row.created === undefined ? undefined : <Age since={row.created} />],
      ]}
    />
  );
}

function Pods({ pods }: { pods: PodRow[] }): JSX.Element {
  return (
    <table class="plain">
      <tbody>
        {pods.map((pod) => (
          <tr key={pod.id}>
            <td>
              <a class="link" href={podHref(pod.id)}>
                {pod.id}
              </a>
            </td>
            <td>
              <WorkloadLink workload={pod.workload} />
            </td>
            <td class="muted">{pod.state}</td>
            <td class="num">
              <Age since={pod.created} />
            </td>
            <td class="num">
              <DeletePod pod={pod} />
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function Actions({ node }: { node: FleetNode }): JSX.Element {
  const { id, cordoned } = node.row;
  const action = (name: Action["action"]): Action => ({ action: name, table: "nodes", id });
  return (
    <>
      {cordoned ? (
        <button
          type="button"
          class="button small"
          onClick={() =>
            requestConfirmation({
              title: `Uncordon ${id}?`,
              text: "New pods can be scheduled on it again.",
              verb: "Uncordon",
              action: action("uncordon"),
            })
          }
        >
          Uncordon…
        </button>
      ) : (
        <button
          type="button"
          class="button small"
          onClick={() =>
            requestConfirmation({
              title: `Cordon ${id}?`,
              text: "No new pods are scheduled on it; its pods keep running.",
              verb: "Cordon",
              action: action("cordon"),
            })
          }
        >
          Cordon…
        </button>
      )}
      <button
        type="button"
        class="button small danger"
        onClick={() =>
          requestConfirmation({
            title: `Drain ${id}?`,
            text: `The node is cordoned and ${pluralize(node.pods.size, "pod")} ${node.pods.size === 1 ? "is" : "are"} evicted, as PodDisruptionBudgets allow.`,
            verb: "Drain",
            danger: true,
            action: action("drain"),
          })
        }
      >
        Drain…
      </button>
      <ActionButtons table="nodes" row={{ ...node.row }} />
    </>
  );
}
