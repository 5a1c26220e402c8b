/** The totals above the map. */
import type { JSX } from "preact";
import { formatExact, money, number, pluralize } from "../lib/format";
import type { Totals } from "../nodes/totals";
import { workloads } from "../workloads/workload-list";

export function SummaryFigures({ totals }: { totals: Totals }): JSX.Element {
  const pending = workloads.value.filter((row) => row.state === "Pending").length;
  const { nodes, ready, gpus, allocated, spent, idle, cpuNodes, unpriced, unpricedNodes } = totals;
  const notes = [
    idle > 0 && `${money(idle)} idle`,
    cpuNodes > 0 && `${money(cpuNodes)} without GPUs`,
    unpriced > 0 && `+ ${pluralize(unpriced, "GPU")} without a price`,
    unpricedNodes > 0 && `+ ${pluralize(unpricedNodes, "node")} without a price`,
  ];
  return (
    <dl class="fleet-figures">
      <Figure name="Nodes ready" value={number(ready)} of={number(nodes)} bad={ready < nodes} />
      <Figure
        name="GPUs allocated"
        value={formatExact(allocated)}
        of={number(gpus)}
        share={gpus ? allocated / gpus : 0}
      />
      <Figure
        name="Workloads pending"
        value={number(pending)}
        href={pending ? "/workloads?state=Pending" : undefined}
      />
      <Figure
        name="USD per hour"
        value={money(spent + idle + cpuNodes)}
        notes={notes.filter((note) => note !== false)}
      />
    </dl>
  );
}

function Figure({
  name,
  value,
  of,
  notes = [],
  share,
  bad,
  href,
}: {
  name: string;
  value: string;
  of?: string;
  notes?: readonly string[];
  share?: number;
  bad?: boolean;
  href?: string | undefined;
}): JSX.Element {
  return (
    <div class="fleet-figure">
      <dt>{name}</dt>
      <dd>
        <span class={bad ? "fleet-figure-value tone-warn" : "fleet-figure-value"}>
          {href ? <a href={href}>{value}</a> : value}
        </span>
        {of && <span class="fleet-figure-of"> / {of}</span>}
        {notes.map((note) => (
          <span key={note} class="fleet-figure-of note">
            {note}
          </span>
        ))}
      </dd>
      {share !== undefined && (
        <span class="fleet-figure-bar" aria-hidden="true">
          <i style={{ width: `${share * 100}%` }} />
        </span>
      )}
    </div>
  );
}
