/** Buttons of the actions that components contribute to the objects of a table. */
import type { JSX } from "preact";
import { actionsAllowed, requestConfirmation } from "../data/actions";
import { actionsOf } from "../data/description";
import type { ActionDescription } from "../data/description-types";
import { type DescribedRow, holds, idParts } from "./fields";

/** Nothing if the console is read-only, or no action applies. */
export function ActionButtons({ table, row }: { table: string; row: DescribedRow }): JSX.Element | null {
  if (!actionsAllowed.value) return null;
  const shown = actionsOf(table).filter((action) => holds(action.when, row));
  if (shown.length === 0) return null;
  return (
    <>
      {shown.map((action) => (
        <button
          key={action.name}
          type="button"
          class={action.danger ? "button small danger" : "button small"}
          onClick={() => confirm(action, row)}
        >
          {action.title}…
        </button>
      ))}
    </>
  );
}

function confirm(action: ActionDescription, row: DescribedRow): void {
  const { value: input } = action;
  const current = input && Number(row[input.field]);
  requestConfirmation({
    title: `${action.title} ${idParts(row.id).name}?`,
    text: action.text,
    verb: action.title,
    danger: action.danger,
    ...(input && { input }),
    action: {
      action: action.name,
      table: action.table,
      id: row.id,
      ...(input && { value: Number.isFinite(current) ? (current as number) : input.minimum }),
    },
  });
}
