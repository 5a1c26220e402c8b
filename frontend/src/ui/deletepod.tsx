/** The button that deletes a pod, after a question. */
import type { JSX } from "preact";
import { ask, mayAct } from "../actions";
import { apart } from "../format";
import type { PodRow } from "../rows";
import { Icon } from "./icons";

/** Nothing where the console is read-only. */
export function DeletePod({ pod }: { pod: PodRow }): JSX.Element | null {
  if (!mayAct.value) return null;
  const { name } = apart(pod.id);
  return (
    <button
      type="button"
      class="icon-button tiny"
      aria-label={`Delete pod ${name}`}
      title="Delete pod…"
      onClick={() =>
        ask({
          title: `Delete pod ${name}?`,
          text: "It is stopped, and what it holds becomes free. Whoever made it makes another in its place; a pod that nobody made is gone for good.",
          verb: "Delete",
          danger: true,
          act: { act: "delete", table: "pods", id: pod.id },
        })
      }
    >
      <Icon name="bin" size={13} />
    </button>
  );
}
