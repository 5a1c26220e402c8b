/** Who holds what on one node: facts, GPUs with their holders, other pods, events, actions. */
import type { JSX } from "preact";
import { ask, mayAct, type Act } from "../actions";
import { ownerColour } from "../colours";
import { bytes, counted, money, number, percent } from "../format";
import { podHref, workloadHref } from "../links";
import type { PodRow } from "../rows";
import { eventsByObject } from "../store";
import { Age, Empty, Swatch } from "../ui/bits";
import { DeletePod } from "../ui/deletepod";
import { EventList } from "../ui/eventlist";
import { LiveObject } from "../ui/object";
import { Facts, Panel, Section } from "../ui/panel";
import { State } from "../ui/state";
import { areKnown, NotThere } from "../ui/unread";
import { cpuRequested } from "./colouring";
import { beat, holdings } from "./follow";
import { heldShare, ownerName, type FleetNode, type Holder } from "./holdings";
import { nodeState, STATE_TONE } from "./state";
import { placeOf, stateWords } from "./words";

export function NodeDetails({ id, onClose }: { id: string; onClose: () => void }): JSX.Element {
  beat.value;
  const node = holdings.nodes.get(id);
  if (!node) {
    return (
      <Panel title={id} onClose={onClose}>
        {areKnown(["nodes"]) ? <Empty title="There is no such node">It may have been removed from the cluster.</Empty> : <NotThere of={["nodes"]} what="The node" />}
      </Panel>
    );
  }
  const { row } = node;
  const state = nodeState(row);
  const without = [...node.pods.values()].filter((pod) => !pod.gpus && !pod.devices?.length);
  return (
    <Panel
      title={row.id}
      subtitle={placeOf(node) || (row.kind === "process" ? "this machine" : undefined)}
      badge={<State tone={STATE_TONE[state]}>{stateWords(row)}</State>}
      actions={mayAct.value && <Actions node={node} />}
      onClose={onClose}
    >
      {row.problem && <p class="node-problem">{row.problem}</p>}
      <NodeFacts node={node} />
      {node.gpus.length > 0 && (
        <Section title="GPUs" aside={`${number(node.held)} of ${node.gpus.length} held`}>
          <ul class="gpu-list">
            {node.gpus.map((holders, gpu) => (
              <Gpu key={gpu} index={gpu} holders={holders} before={node.gpus[gpu - 1]} lost={row.lost?.includes(gpu) ?? false} />
            ))}
          </ul>
        </Section>
      )}
      <Section title={node.gpus.length ? "Pods without GPUs" : "Pods"} aside={counted(without.length, "pod")}>
        {without.length ? <Pods pods={without} /> : <p class="muted">None.</p>}
      </Section>
      {row.taints && (
        <Section title="Taints">
          <ul class="node-taints">{row.taints.map((taint) => <li key={taint}><code>{taint}</code></li>)}</ul>
        </Section>
      )}
      <Section title="Events"><EventList events={[...eventsByObject.get(`Node/${id}`).values()]} /></Section>
      <LiveObject table="nodes" id={id} />
    </Panel>
  );
}

function NodeFacts({ node }: { node: FleetNode }): JSX.Element {
  const { row, usage } = node;
  let ram = 0;
  for (const pod of node.pods.values()) ram += pod.ram ?? 0;
  const gpus = row.gpus ? `${row.gpus} × ${row.product ?? "GPU"}` : "none";
  const links = row.clique ? `${row.fabric || "NVLink"}, domain ${row.clique}` : row.fabric;
  const idle = node.gpus.length - node.held;
  return (
    <Facts
      of={[
        ["GPUs", row.memory ? `${gpus}, ${bytes(row.memory * 2 ** 20)}` : gpus],
        ["Links", links],
        ["Price", row.price && row.gpus ? `${money(row.price * row.gpus)}/h${idle > 0 ? `, ${money(row.price * idle)} idle` : ""}` : undefined],
        ["Cores", `${number(row.cpu)}, ${percent(cpuRequested(node))} asked for${usage ? `, ${percent(usage.cpu)} in use` : ""}`],
        ["Memory", `${bytes(row.ram)}, ${percent(row.ram ? ram / row.ram : 0)} asked for${usage ? `, ${percent(usage.memory)} in use` : ""}`],
        ["Pods", row.maxPods ? `${node.pods.size} of ${row.maxPods}` : String(node.pods.size)],
        ["Kind", row.kind === "process" ? "this machine" : row.kind === "sim" ? "simulated" : row.kind],
        ["Age", row.created === undefined ? undefined : <Age since={row.created} />],
      ]}
    />
  );
}

/** A pod that holds several GPUs can be deleted at the first of them. */
function Gpu({ index, holders, before, lost }: {
  index: number;
  holders: readonly Holder[];
  before: readonly Holder[] | undefined;
  lost: boolean;
}): JSX.Element {
  const held = heldShare(holders);
  return (
    <li class={lost ? "gpu lost" : "gpu"}>
      <span class="gpu-index">{index}</span>
      <span class="gpu-bar" role="img" aria-label={`${percent(held)} held`}>
        {holders.map(({ pod, share }) => (
          <i key={pod.id} style={{ width: `${share * 100}%`, background: ownerColour(pod.workload) }} />
        ))}
      </span>
      <span class="gpu-holders">
        {lost && <State tone="bad">Lost</State>}
        {holders.length === 0 && !lost && <span class="faint">free</span>}
        {holders.map(({ pod, share }) => (
          <span key={pod.id} class="gpu-holder">
            <WorkloadLink workload={pod.workload} />
            <a class="faint ellipsis" href={podHref(pod.id)} title={pod.id}>{pod.id.slice(pod.id.indexOf("/") + 1)}</a>
            {share < 1 && <span class="faint">{percent(share)}</span>}
            {!before?.some((holder) => holder.pod.id === pod.id) && <DeletePod pod={pod} />}
          </span>
        ))}
      </span>
    </li>
  );
}

function Pods({ pods }: { pods: PodRow[] }): JSX.Element {
  return (
    <table class="plain">
      <tbody>
        {pods.map((pod) => (
          <tr key={pod.id}>
            <td><a class="link" href={podHref(pod.id)}>{pod.id}</a></td>
            <td><WorkloadLink workload={pod.workload} /></td>
            <td class="muted">{pod.state}</td>
            <td class="num"><Age since={pod.created} /></td>
            <td class="num"><DeletePod pod={pod} /></td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function WorkloadLink({ workload }: { workload: string }): JSX.Element {
  return (
    <a class="owner-link" href={workloadHref(workload)} title={workload}>
      <Swatch owner={workload} />
      {ownerName(workload)}
    </a>
  );
}

function Actions({ node }: { node: FleetNode }): JSX.Element {
  const { id, cordoned } = node.row;
  const act = (name: Act["act"]): Act => ({ act: name, table: "nodes", id });
  return (
    <>
      {cordoned ? (
        <button type="button" class="button small" onClick={() => ask({
          title: `Uncordon ${id}?`, text: "New pods may be placed on it again.", verb: "Uncordon", act: act("uncordon"),
        })}>Uncordon…</button>
      ) : (
        <button type="button" class="button small" onClick={() => ask({
          title: `Cordon ${id}?`, text: "No new pods are placed on it; those that are here stay.", verb: "Cordon", act: act("cordon"),
        })}>Cordon…</button>
      )}
      <button type="button" class="button small danger" onClick={() => ask({
        title: `Drain ${id}?`,
        text: `It is cordoned and ${counted(node.pods.size, "pod")} on it ${node.pods.size === 1 ? "is" : "are"} evicted, as disruption budgets allow.`,
        verb: "Drain", danger: true, act: act("drain"),
      })}>Drain…</button>
    </>
  );
}
