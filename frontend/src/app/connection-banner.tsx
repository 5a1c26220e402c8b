/** Banner shown while the page is not live. */
import type { JSX } from "preact";
import { now } from "../data/clock";
import { connection, loadingTables, reconnectNow, serverInfo } from "../data/stream";
import { duration } from "../lib/format";

/** Empty while the connection is live; changes are announced to screen readers. */
export function Banner(): JSX.Element {
  return (
    <div class="banner-place" role="status" aria-live="polite">
      <BannerText />
    </div>
  );
}

function BannerText(): JSX.Element | null {
  const at = connection.value;
  switch (at.state) {
    case "live":
      return loadingTables.value.length ? (
        <p class="banner tone-busy">The console is still loading {loadingTables.value.join(", ")}.</p>
      ) : null;
    case "paused":
      return null;
    case "connecting":
      return <p class="banner tone-busy">Connecting…</p>;
    case "denied":
      return (
        <p class="banner tone-bad">
          <span>
            This browser is not authenticated. Open the link that <code>kilonova status</code> prints.
          </span>
        </p>
      );
    case "lost": {
      const left = Math.max(0, Math.ceil(at.nextTry - now.value));
      return (
        <p class="banner tone-bad">
          <span>
            {serverInfo.value ? "Connection lost" : "No connection"}
            <span aria-hidden="true"> for {duration(Math.max(0, Math.floor(now.value - at.since)))}</span>
            {serverInfo.value && ": the page shows the last known state"}.
            <span aria-hidden="true"> {left > 0 ? `Next try in ${left} s.` : "Trying…"}</span>
          </span>
          <button type="button" class="button small" onClick={reconnectNow}>
            Try now
          </button>
        </p>
      );
    }
  }
}
