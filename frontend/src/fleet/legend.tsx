/** The legend of the map's colours, with totals; selecting an owner highlights it. */
import type { JSX } from "preact";
import { setQuery } from "../app/router";
import { money, number, percent, pluralize } from "../lib/format";
import { colourThemes, costColour, STATE_TEXTURE, type ThemeName, utilisationColour } from "../nodes/colour-theme";
import { ownerName } from "../nodes/gpu-allocations";
import { STATES } from "../nodes/state";
import { capitalise } from "../nodes/text";
import type { Totals } from "../nodes/totals";
import type { ViewQuery } from "../nodes/view-query";
import { Swatch } from "../ui/controls";

const MAX_OWNERS = 6;

export function Legend({ view, totals }: { view: ViewQuery; totals: Totals }): JSX.Element {
  return (
    <div class="fleet-legend" aria-label="Legend" role="group">
      {view.mode === "owner" && <Owners view={view} totals={totals} />}
      {view.mode === "health" && <Health theme={view.theme} totals={totals} />}
      {view.mode === "allocation" && <Allocation theme={view.theme} totals={totals} />}
      {view.mode === "usage" && <Usage theme={view.theme} totals={totals} />}
      {view.mode === "cost" && <Cost theme={view.theme} totals={totals} />}
    </div>
  );
}

function Owners({ view, totals }: { view: ViewQuery; totals: Totals }): JSX.Element {
  const top = totals.owners.slice(0, MAX_OWNERS);
  const chosen = totals.owners.find(([owner]) => owner === view.owner);
  if (chosen && !top.includes(chosen)) top.push(chosen);
  const others = totals.owners.length - top.length;
  const free = totals.gpus - totals.allocated;
  return (
    <>
      {top.map(([owner, gpus]) => (
        <button
          key={owner}
          type="button"
          class="fleet-legend-item"
          aria-pressed={owner === view.owner}
          title={`${owner}: ${pluralize(gpus, "GPU")}`}
          onClick={() => setQuery({ owner: owner === view.owner ? undefined : owner })}
        >
          <Swatch owner={owner} />
          <span class="ellipsis">{ownerName(owner)}</span>
          <span class="faint">{number(gpus)}</span>
        </button>
      ))}
      {others > 0 && <span class="fleet-legend-note">and {pluralize(others, "other")}</span>}
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
          <span
            class={`swatch texture-${STATE_TEXTURE[state] ?? "plain"}`}
            style={{ "--ink": colourThemes[theme].states[state] }}
            aria-hidden="true"
          />
          {state === "lost" ? "GPU lost" : capitalise(state)}
          <span class="faint">
            {state === "lost" ? pluralize(totals.states.lost, "GPU") : pluralize(totals.nodeStates[state], "node")}
          </span>
        </span>
      ))}
    </>
  );
}

function Allocation({ theme, totals }: { theme: ThemeName; totals: Totals }): JSX.Element {
  const share = totals.gpus ? totals.allocated / totals.gpus : 0;
  return (
    <>
      <span class="fleet-legend-scale">
        <span>0 %</span>
        <i style={{ background: gradient((at) => utilisationColour(theme, at)) }} aria-hidden="true" />
        <span>100 %</span>
      </span>
      <span class="fleet-legend-note">
        Cells: allocated share of each GPU, {percent(share)} overall. Bars, when zoomed in:{" "}
        {totals.cpu === undefined
          ? "requested CPU (no usage metrics available)"
          : `CPU usage, ${percent(totals.cpu)} on average`}
        .
      </span>
    </>
  );
}

function Usage({ theme, totals }: { theme: ThemeName; totals: Totals }): JSX.Element {
  const { utilisation, measured, power } = totals;
  return (
    <>
      <span class="fleet-legend-scale">
        <span>0 %</span>
        <i style={{ background: gradient((at) => utilisationColour(theme, at)) }} aria-hidden="true" />
        <span>100 %</span>
      </span>
      <span class="fleet-legend-note">
        {utilisation === undefined
          ? "No GPU reports its utilisation."
          : `Utilisation of ${pluralize(measured, "GPU")}: ${percent(utilisation)} on average${power === undefined ? "" : `, ${number(power / 1000)} kW`}.`}
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
          <i
            style={{ background: gradient((at) => costColour(theme, (least + at * (most - least)) / most)) }}
            aria-hidden="true"
          />
          <span>{money(most)} per GPU-hour</span>
        </span>
      )}
      {totals.unpriced > 0 && (
        <span class="fleet-legend-note">no price known for {pluralize(totals.unpriced, "GPU")}</span>
      )}
      {totals.unpricedNodes > 0 && (
        <span class="fleet-legend-note">no price known for {pluralize(totals.unpricedNodes, "node")} without GPUs</span>
      )}
    </>
  );
}

function gradient(colour: (at: number) => string): string {
  return `linear-gradient(90deg, ${[0, 0.25, 0.5, 0.75, 1].map(colour).join(", ")})`;
}
