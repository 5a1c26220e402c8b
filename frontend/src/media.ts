/** Whether the screen is that of a phone. */
import { signal } from "@preact/signals";

const query = matchMedia("(max-width: 720px)");

/** True below 720 px; the style sheet uses the same width. */
export const narrow = signal(query.matches);
query.addEventListener("change", () => (narrow.value = query.matches));
