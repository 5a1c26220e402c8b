/** What is said where tables cannot be read, or have not come yet. */
import type { JSX } from "preact";
import { now } from "../clock";
import type { TableName } from "../rows";
import { loaded } from "../store";
import { troubles } from "../stream";
import { noticesOf, type Notice } from "../troubles";
import { Empty } from "./bits";
import { Mark } from "./state";

/** Above a page: which of its tables cannot be read, and why. Announced to those who do not see it. */
export function Unread({ of }: { of: readonly TableName[] }): JSX.Element {
  const notices = noticesHere(of);
  return (
    <div class={notices.length ? "unread tone-warn" : undefined}>
      <div role="status">
        {notices.map(({ title, advice }) => (
          <div key={title} class="unread-notice">
            <Mark tone="warn" />
            <p><b>{title}.</b> <span class="muted">{advice}</span></p>
          </div>
        ))}
      </div>
      {notices.length > 0 && (
        <details class="unread-said">
          <summary>The exact words</summary>
          <ul>{notices.flatMap((notice) => notice.said).map((words) => <li key={words}>{words}</li>)}</ul>
        </details>
      )}
    </div>
  );
}

/** In place of rows that have not come: `what` cannot be read, or is on its way. */
export function NotThere({ of, what }: { of: readonly TableName[]; what: string }): JSX.Element {
  const [notice] = noticesHere(of);
  return notice ? <Empty title={`${what} cannot be read`}>{notice.title}.</Empty> : <Empty title="Reading the cluster…" />;
}

/** Whether all of these have come; what is not in them is then known not to be there. */
export function areKnown(of: readonly TableName[]): boolean {
  return of.every((table) => loaded.value.has(table));
}

function noticesHere(of: readonly TableName[]): Notice[] {
  return troubles.value.length ? noticesOf(troubles.value, of, loaded.value, now.peek()) : [];
}
