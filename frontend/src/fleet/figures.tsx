/** The numbers above the map. */
import type { JSX } from "preact";
import { counted, exact, money, number } from "../format";
import { workloads } from "../workloads/rows";
import type { Totals } from "./totals";

export function Figures({ totals }: { totals: Totals }): JSX.Element {
  const waiting = workloads.value.filter((row) => row.state === "Waiting").length;
  const { nodes, ready, gpus, held, spent, idle, unpriced } = totals;
  const notes = [idle > 0 && `${money(idle)} idle`, unpriced > 0 && `+ ${counted(unpriced, "GPU")} without a price`];
  return (
    <dl class="fleet-figures">
      <Figure name="Nodes ready" value={number(ready)} of={number(nodes)} bad={ready < nodes} />
      <Figure name="GPUs held" value={exact(held)} of={number(gpus)} share={gpus ? held / gpus : 0} />
      <Figure name="Workloads waiting" value={number(waiting)} href={waiting ? "/workloads?state=Waiting" : undefined} />
      <Figure name="USD per hour" value={money(spent + idle)} notes={notes.filter((note) => note !== false)} />
    </dl>
  );
}

function Figure({ name, value, of, notes = [], share, bad, href }: {
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
        <span class={bad ? "fleet-figure-value tone-warn" : "fleet-figure-value"}>{href ? <a href={href}>{value}</a> : value}</span>
        {of && <span class="fleet-figure-of"> / {of}</span>}
        {notes.map((note) => <span key={note} class="fleet-figure-of note">{note}</span>)}
      </dd>
      {share !== undefined && <span class="fleet-figure-bar" aria-hidden="true"><i style={{ width: `${share * 100}%` }} /></span>}
    </div>
  );
}
