/** The server's time: one timer for all ages on the page. */
import { signal } from "@preact/signals";

let skew = 0;

/** Seconds since the epoch, updated once a second. */
export const now = signal(Date.now() / 1000);

/** Sets the offset between the server's clock and this one. */
export function setClock(serverNow: number): void {
  skew = serverNow - Date.now() / 1000;
  now.value = serverNow;
}

setInterval(() => {
  if (!document.hidden) now.value = Date.now() / 1000 + skew;
}, 1000);
