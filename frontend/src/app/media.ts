/** Media queries as signals. */
import { type ReadonlySignal, signal } from "@preact/signals";

/** True on a phone, below 720 px; the style sheet uses the same width. */
export const narrow = mediaQuery("(max-width: 720px)");
/** True below 1,200 px, where tables are too narrow for all their columns. */
export const tight = mediaQuery("(max-width: 1200px)");

function mediaQuery(query: string): ReadonlySignal<boolean> {
  const list = matchMedia(query);
  const matches = signal(list.matches);
  list.addEventListener("change", () => (matches.value = list.matches));
  return matches;
}
