/**
 * Whether anybody looks at this tab.
 *
 * A browser has six connections to a host, for all of its tabs together, and a stream holds one for
 * as long as it is open. So a tab that nobody sees gives its own back: after a while, or at once
 * when another tab of this console opens a stream. One that is opened in the background takes none.
 */
import { signal, type ReadonlySignal } from "@preact/signals";

const LINGER_MS = 30_000;

const seen = signal(true);
/** True while the tab is seen, and for a while after. */
export const watched: ReadonlySignal<boolean> = seen;

let others: BroadcastChannel | undefined;
let leaving: ReturnType<typeof setTimeout> | undefined;

/** Follows the browser's word on whether the tab is seen. */
export function startAttention(): void {
  seen.value = isShown();
  others = new BroadcastChannel("kilonova-console");
  others.onmessage = () => {
    if (!isShown()) seen.value = false;
  };
  document.addEventListener("visibilitychange", () => {
    clearTimeout(leaving);
    if (isShown()) seen.value = true;
    else leaving = setTimeout(() => (seen.value = false), LINGER_MS);
  });
}

/** Tells the other tabs that this one opens a stream. */
export function claimStream(): void {
  others?.postMessage("opening");
}

function isShown(): boolean {
  return document.visibilityState === "visible";
}
