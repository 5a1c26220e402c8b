/** The filters that the map and the table of nodes share. */
import type { JSX } from "preact";
import { setQuery } from "../router";
import { Choice, choices, different } from "../ui/bits";
import { beat, holdings } from "./follow";
import { MODES, type Mode } from "./colouring";
import { view } from "./view";
import { capital } from "./words";

/** One zone, one product; beside details only those that are chosen. */
export function PlaceChoices({ all = true }: { all?: boolean }): JSX.Element {
  beat.value;
  const { zone, product } = view.value;
  const rows = [...holdings.nodes.values()].map((node) => node.row);
  return (
    <>
      {(all || zone) && <Choice label="Zone" name="zone" options={choices("All zones", different(rows.flatMap((row) => row.zone ?? [])))} />}
      {(all || product) && <Choice label="Product" name="product" options={choices("All products", different(rows.flatMap((row) => row.product ?? [])))} />}
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
