/** The button that deletes a pod, with confirmation. */
import type { JSX } from "preact";
import { actionsAllowed, requestConfirmation } from "../data/actions";
import type { PodRow } from "../data/rows";
import { splitId } from "../lib/format";
import { Icon } from "../ui/icons";

/** Not rendered if the console is read-only. */
export function DeletePod({ pod }: { pod: PodRow }): JSX.Element | null {
  if (!actionsAllowed.value) return null;
  const { name } = splitId(pod.id);
  return (
    <button
      type="button"
      class="icon-button tiny"
      aria-label={`Delete pod ${name}`}
      title="Delete pod…"
      onClick={() =>
        requestConfirmation({
          title: `Delete pod ${name}?`,
          text: "The pod is stopped and its resources are released. Its controller creates a replacement; a pod without a controller is not replaced.",
          verb: "Delete",
          danger: true,
          action: { action: "delete", table: "pods", id: pod.id },
        })
      }
    >
      <Icon name="bin" size={13} />
    </button>
  );
}
