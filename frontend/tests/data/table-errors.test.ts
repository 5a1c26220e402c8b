import { expect, test } from "vitest";
import type { TableError } from "../../src/data/messages";
import { noticesOf } from "../../src/data/table-errors";

test("tables unreadable for the same reason share a notice, with the age of stale rows", () => {
  const error = (table: TableError["table"], resource: string, reason: TableError["reason"]): TableError => ({
    table,
    resource,
    reason,
    message: `${resource}!`,
    since: 1000,
  });
  const errors = [
    error("sets", "podcliquesets", "forbidden"),
    error("gangs", "podgangs", "forbidden"),
    error("pods", "pods", "rejected"),
    error("events", "events", "forbidden"),
  ];
  const [failed, forbidden, ...more] = noticesOf(errors, ["pods", "sets", "gangs"], new Set(["gangs"]), 1060);
  expect(more).toEqual([]);
  expect(forbidden?.title).toBe("Not authorized to read podcliquesets and podgangs");
  expect(forbidden?.advice).toMatch(/The page shows podgangs as of [\d:]+\.$/);
  expect(forbidden?.messages).toEqual(["podcliquesets!", "podgangs!"]);
  expect(failed).toEqual({
    title: "The API server failed to list or watch pods",
    advice: "The console retries automatically.",
    messages: ["pods!"],
  });
  expect(noticesOf(errors, ["nodes"], new Set(), 1060)).toEqual([]);
});
