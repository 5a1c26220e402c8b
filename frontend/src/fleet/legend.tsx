/** What the colours mean, with numbers; choosing an owner makes it stand out. */
import type { JSX } from "preact";
import { counted, money, number, percent } from "../format";
import { setQuery } from "../router";
import { Swatch } from "../ui/bits";
import { ownerName } from "./holdings";
import { costColour, skins, STATE_TEXTURE, useColour, type ThemeName } from "./skin";
import { STATES } from "./state";
import type { Totals } from "./totals";
import type { View } from "./view";
import { capital } from "./words";

const TOP = 6;

export function Legend({ view, totals }: { view: View; totals: Totals }): JSX.Element {
  return (
    <div class="fleet-legend" aria-label="Legend" role="group">
      {view.mode === "owner" && <Owners view={view} totals={totals} />}
      {view.mode === "health" && <Health theme={view.theme} totals={totals} />}
      {view.mode === "allocation" && <Allocation theme={view.theme} totals={totals} />}
      {view.mode === "cost" && <Cost theme={view.theme} totals={totals} />}
    </div>
  );
}

function Owners({ view, totals }: { view: View; totals: Totals }): JSX.Element {
  const top = totals.owners.slice(0, TOP);
  const chosen = totals.owners.find(([owner]) => owner === view.owner);
  if (chosen && !top.includes(chosen)) top.push(chosen);
  const others = totals.owners.length - top.length;
  const free = totals.gpus - totals.held;
  return (
    <>
      {top.map(([owner, gpus]) => (
        <button
          key={owner}
          type="button"
          class="fleet-legend-item"
          aria-pressed={owner === view.owner}
          title={`${owner}: ${counted(gpus, "GPU")}`}
          onClick={() => setQuery({ owner: owner === view.owner ? undefined : owner })}
        >
          <Swatch owner={owner} />
          <span class="ellipsis">{ownerName(owner)}</span>
          <span class="faint">{number(gpus)}</span>
        </button>
      ))}
      {others > 0 && <span class="fleet-legend-note">and {counted(others, "other")}</span>}
      <span class="fleet-legend-item still">
        <span class="swatch free" aria-hidden="true" /> free <span class="faint">{number(free)}</span>
      </span>
    </>
  );
}

function Health({ theme, totals }: { theme: ThemeName; totals: Totals }): JSX.Element {
  return (
    <>
      {STATES.map((state) => (
        <span key={state} class="fleet-legend-item still">
          <span class={`swatch texture-${STATE_TEXTURE[state] ?? "plain"}`} style={{ "--ink": skins[theme].states[state] }} aria-hidden="true" />
          {state === "lost" ? "GPU lost" : capital(state)}
          <span class="faint">
            {state === "lost" ? counted(totals.states.lost, "GPU") : counted(totals.nodeStates[state], "node")}
          </span>
        </span>
      ))}
    </>
  );
}

function Allocation({ theme, totals }: { theme: ThemeName; totals: Totals }): JSX.Element {
  const share = totals.gpus ? totals.held / totals.gpus : 0;
  return (
    <>
      <span class="fleet-legend-scale">
        <span>0 %</span>
        <i style={{ background: gradient((at) => useColour(theme, at)) }} aria-hidden="true" />
        <span>100 %</span>
      </span>
      <span class="fleet-legend-note">
        Cells: share of each GPU given to pods, {percent(share)} over all. Bars, from near: {totals.cpu === undefined
          ? "cores that pods asked for (no usage is measured here)"
          : `cores in use, ${percent(totals.cpu)} on average`}.
      </span>
    </>
  );
}

function Cost({ theme, totals }: { theme: ThemeName; totals: Totals }): JSX.Element {
  const [least, most] = totals.prices;
  return (
    <>
      <span class="fleet-legend-item still strong">
        <span class="swatch texture-plain" style={{ "--ink": costColour(theme, 0.7) }} aria-hidden="true" />
        {money(totals.spent)}/h in use
      </span>
      <span class="fleet-legend-item still strong">
        <span class="swatch texture-hatch" style={{ "--ink": costColour(theme, 0.7) }} aria-hidden="true" />
        {money(totals.idle)}/h idle
      </span>
      {most > 0 && (
        <span class="fleet-legend-scale">
          <span>{money(least)}</span>
          <i style={{ background: gradient((at) => costColour(theme, (least + at * (most - least)) / most)) }} aria-hidden="true" />
          <span>{money(most)} per GPU-hour</span>
        </span>
      )}
      {totals.unpriced > 0 && <span class="fleet-legend-note">no price known for {counted(totals.unpriced, "GPU")}</span>}
    </>
  );
}

function gradient(colour: (at: number) => string): string {
  return `linear-gradient(90deg, ${[0, 0.25, 0.5, 0.75, 1].map(colour).join(", ")})`;
}
