import { expect, test } from "vitest";
import { find, type Target } from "../../src/search/matcher";

test("a match at the start of a name ranks before one inside", () => {
  const target = (name: string): Target => ({ kind: "Pod", name, detail: "in demo", href: () => undefined });
  const names = ["my-chat", "xchat", "chat-0", "chat", "other"].map(target);
  expect(find(names, "chat").map((each) => each.name)).toEqual(["chat", "chat-0", "my-chat", "xchat"]);
  expect(find(names, "chat demo")).toHaveLength(4);
});
