/** Texts about nodes. */

import type { GpuReading, NodeRow } from "../data/rows";
import { number, percent } from "../lib/format";
import type { FleetNode } from "./gpu-allocations";
import type { State } from "./state";

/** The location of a node: "rack h100-rack-0, block b1, zone z1". */
export function locationText(node: FleetNode): string {
  const { zone, block, rack } = node.row;
  return [rack && `rack ${rack}`, block && `block ${block}`, zone && `zone ${zone}`].filter(Boolean).join(", ");
}

/** The states of a node as in `kilonova nodes`: "Ready, Cordoned". */
export function nodeStateText(row: NodeRow): string {
  return row.state.replaceAll(",", ", ");
}

/** The label of a node's worst state. */
export function stateLabel(state: State): string {
  return state === "healthy" ? "Ready" : state === "lost" ? "GPU lost" : capitalise(state);
}

export function capitalise(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** Live metrics of a GPU: "83 % busy, 40.2 of 79.6 GiB, 512 W, 61 °C"; `memory` is its total in MiB. */
export function readingText(reading: GpuReading, memory: number | undefined): string {
  const parts = [
    reading.utilisation !== undefined && `${percent(reading.utilisation)} busy`,
    reading.memory !== undefined &&
      (memory
        ? `${number(reading.memory / 1024)} of ${number(memory / 1024)} GiB`
        : `${number(reading.memory / 1024)} GiB`),
    reading.power !== undefined && `${number(reading.power)} W`,
    reading.temperature !== undefined && `${number(reading.temperature)} °C`,
  ];
  return parts.filter(Boolean).join(", ");
}
