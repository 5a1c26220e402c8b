/** How much room the screen has. */
import { signal, type ReadonlySignal } from "@preact/signals";

/** True on a phone, below 720 px; the style sheet uses the same width. */
export const narrow = matching("(max-width: 720px)");
/** True below 1,200 px, where tables have no room for all their columns. */
export const tight = matching("(max-width: 1200px)");

function matching(query: string): ReadonlySignal<boolean> {
  const asked = matchMedia(query);
  const answer = signal(asked.matches);
  asked.addEventListener("change", () => (answer.value = asked.matches));
  return answer;
}
