/** Says when what is shown is not live. */
import type { JSX } from "preact";
import { now } from "./clock";
import { duration } from "./format";
import { connection, filling, hello, tryNow } from "./stream";

/** Nothing while all is well; announced to those who do not see it. */
export function Banner(): JSX.Element {
  return (
    <div class="banner-place" role="status" aria-live="polite">
      <Words />
    </div>
  );
}

function Words(): JSX.Element | null {
  const at = connection.value;
  switch (at.state) {
    case "live":
      return filling.value.length ? (
        <p class="banner tone-busy">The console is still reading {filling.value.join(", ")}.</p>
      ) : null;
    case "resting":
      return null;
    case "connecting":
      return <p class="banner tone-busy">Connecting…</p>;
    case "denied":
      return (
        <p class="banner tone-bad">
          <span>The console does not know this browser. Open the link that <code>kilonova status</code> prints.</span>
        </p>
      );
    case "lost": {
      const left = Math.max(0, Math.ceil(at.nextTry - now.value));
      return (
        <p class="banner tone-bad">
          <span>
            {hello.value ? "Connection lost" : "No connection"}
            <span aria-hidden="true"> for {duration(Math.max(0, Math.floor(now.value - at.since)))}</span>
            {hello.value && ": what you see is as it was then"}.
            <span aria-hidden="true"> {left > 0 ? `Next try in ${left} s.` : "Trying…"}</span>
          </span>
          <button type="button" class="button small" onClick={tryNow}>Try now</button>
        </p>
      );
    }
  }
}
