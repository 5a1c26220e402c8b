/**
 * Whether this tab is visible.
 *
 * A browser opens six connections to a host for all tabs together, and a stream occupies one while
 * it is open. A hidden tab therefore closes its stream: after LINGER_MS, or immediately when another
 * tab of this console opens one. A tab opened in the background opens none until it is visible.
 */
import { type ReadonlySignal, signal } from "@preact/signals";

const LINGER_MS = 30_000;

const visible = signal(true);
/** True while the tab is visible, and for LINGER_MS after. */
export const isTabVisible: ReadonlySignal<boolean> = visible;

let channel: BroadcastChannel | undefined;
let hideTimer: ReturnType<typeof setTimeout> | undefined;

/** Tracks the document's visibility state. */
export function trackTabVisibility(): void {
  visible.value = isDocumentVisible();
  channel = new BroadcastChannel("kilonova-console");
  channel.onmessage = () => {
    if (!isDocumentVisible()) visible.value = false;
  };
  document.addEventListener("visibilitychange", () => {
    clearTimeout(hideTimer);
    if (isDocumentVisible()) visible.value = true;
    else hideTimer = setTimeout(() => (visible.value = false), LINGER_MS);
  });
}

/** Notifies the other tabs that this one opens a stream. */
export function claimStream(): void {
  channel?.postMessage("opening");
}

function isDocumentVisible(): boolean {
  return document.visibilityState === "visible";
}
