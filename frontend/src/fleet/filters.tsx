/** The filters that the map and the table of nodes share. */
import type { JSX } from "preact";
import { setQuery } from "../router";
import { Choice } from "../ui/bits";
import { beat, holdings } from "./follow";
import { MODES, type Mode } from "./colouring";
import { capital } from "./words";

const natural = new Intl.Collator("en", { numeric: true });

/** One zone, one product. */
export function PlaceChoices(): JSX.Element {
  beat.value;
  const zones = new Set<string>();
  const products = new Set<string>();
  for (const { row } of holdings.nodes.values()) {
    if (row.zone) zones.add(row.zone);
    if (row.product) products.add(row.product);
  }
  return (
    <>
      <Choice label="Zone" name="zone" options={options("All zones", zones)} />
      <Choice label="Product" name="product" options={options("All products", products)} />
    </>
  );
}

/** What the map is coloured by. */
export function ColourChoice({ mode }: { mode: Mode }): JSX.Element {
  return (
    <div class="fleet-segments" role="radiogroup" aria-label="Colour by">
      {MODES.map((each) => (
        <label key={each} class="fleet-segment">
          <input
            type="radio"
            name="colour"
            class="visually-hidden"
            checked={each === mode}
            onChange={() => setQuery({ colour: each === "owner" ? undefined : each, owner: undefined })}
          />
          <span>{capital(each)}</span>
        </label>
      ))}
    </div>
  );
}

function options(all: string, values: Set<string>): { value: string; title: string }[] {
  const sorted = [...values].sort(natural.compare);
  return [{ value: "", title: all }, ...sorted.map((value) => ({ value, title: value }))];
}
