/** The time, as the server has it: one timer for all ages on the page. */
import { signal } from "@preact/signals";

let skew = 0;

/** Seconds since the epoch, moved on once a second. */
export const now = signal(Date.now() / 1000);

/** Takes the server's time as the right one. */
export function setClock(serverNow: number): void {
  skew = serverNow - Date.now() / 1000;
  now.value = serverNow;
}

setInterval(() => {
  if (!document.hidden) now.value = Date.now() / 1000 + skew;
}, 1000);
