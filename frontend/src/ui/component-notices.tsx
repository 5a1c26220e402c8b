/** Notices for components of the cluster that have failed. */
import type { JSX } from "preact";
import { degradedComponents } from "../data/stream";
import { Mark } from "./state";

/** Above every page: which components are degraded, and why. Announced to screen readers. */
export function ComponentNotices(): JSX.Element {
  const degraded = degradedComponents.value;
  return (
    <div class={degraded.length ? "table-notices tone-warn" : undefined}>
      <div role="status">
        {degraded.map(({ name, problem }) => (
          <div key={name} class="table-notice">
            <Mark tone="warn" />
            <p>
              <b>Component {name} is degraded.</b> <span class="muted">It {problem}</span>
            </p>
          </div>
        ))}
      </div>
    </div>
  );
}
