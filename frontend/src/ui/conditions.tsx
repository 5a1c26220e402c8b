/** The conditions of an object. */
import type { JSX } from "preact";
import type { ConditionRow } from "../data/rows";
import { shortenText } from "../workloads/states";
import { Age } from "./controls";

/** In the order given. */
export function Conditions({ conditions }: { conditions: readonly ConditionRow[] }): JSX.Element {
  return (
    <table class="plain conditions">
      <thead>
        <tr>
          <th>Condition</th>
          <th>Status</th>
          <th>Reason</th>
          <th class="num">Since</th>
        </tr>
      </thead>
      <tbody>
        {conditions.map((each) => (
          <tr key={each.type}>
            <td>
              <b>{each.type}</b>
            </td>
            <td>{each.status}</td>
            <td>
              {each.reason}
              {each.message && <p class="faint">{shortenText(each.message)}</p>}
            </td>
            <td class="num">
              <Age since={each.since} />
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
