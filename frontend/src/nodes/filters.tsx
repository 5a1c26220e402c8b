/** Filters shared by the map and the table of nodes. */
import type { JSX } from "preact";
import { setQuery } from "../app/router";
import { tables } from "../data/store";
import { distinct, FilterSelect, filterOptions } from "../ui/controls";
import { COLOUR_MODES, type ColourMode } from "./cell-colours";
import { allocations, refreshTick } from "./live-allocations";
import { capitalise } from "./text";
import { viewQuery } from "./view-query";

/** Filters by zone and product; without `all`, only those in effect. */
export function TopologyFilters({ all = true }: { all?: boolean }): JSX.Element {
  refreshTick.value;
  const { zone, product } = viewQuery.value;
  const rows = [...allocations.nodes.values()].map((node) => node.row);
  return (
    <>
      {(all || zone) && (
        <FilterSelect
          label="Zone"
          name="zone"
          options={filterOptions("All zones", distinct(rows.flatMap((row) => row.zone ?? [])))}
        />
      )}
      {(all || product) && (
        <FilterSelect
          label="Product"
          name="product"
          options={filterOptions("All products", distinct(rows.flatMap((row) => row.product ?? [])))}
        />
      )}
    </>
  );
}

/** Selects the colour mode of the map; the usage of GPUs is offered where there are metrics. */
export function ColourModeSelect({ mode }: { mode: ColourMode }): JSX.Element {
  const shown = COLOUR_MODES.filter((each) => each !== "usage" || each === mode || tables.gpumetrics.all.size > 0);
  return (
    <div class="fleet-segments" role="radiogroup" aria-label="Colour by">
      {shown.map((each) => (
        <label key={each} class="fleet-segment">
          <input
            type="radio"
            name="colour"
            class="visually-hidden"
            checked={each === mode}
            onChange={() => setQuery({ colour: each === "owner" ? undefined : each, owner: undefined })}
          />
          <span>{capitalise(each)}</span>
        </label>
      ))}
    </div>
  );
}
