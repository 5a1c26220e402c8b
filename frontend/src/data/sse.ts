/** A parser of server-sent events that accepts text in chunks. */

export interface Message {
  event: string;
  data: string;
}

/** Splits a stream's text into messages; comments, which serve as keep-alives, are ignored. */
export function messageReader(): (chunk: string) => Message[] {
  let rest = "";
  let event = "message";
  let data: string[] = [];
  return (chunk) => {
    const lines = (rest + chunk).split("\n");
    rest = lines.pop() ?? "";
    const found: Message[] = [];
    for (const raw of lines) {
      const line = raw.endsWith("\r") ? raw.slice(0, -1) : raw;
      if (line === "") {
        if (data.length) found.push({ event, data: data.join("\n") });
        event = "message";
        data = [];
      } else if (line.startsWith("data:")) data.push(line.slice(line[5] === " " ? 6 : 5));
      else if (line.startsWith("event:")) event = line.slice(6).trim();
    }
    return found;
  };
}
