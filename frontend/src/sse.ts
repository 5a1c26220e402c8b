/** Server-sent events, as text arrives in pieces. */

export interface Message {
  event: string;
  data: string;
}

/** Splits a stream's text into messages; comments are only a sign of life and give nothing. */
export function messageReader(): (piece: string) => Message[] {
  let rest = "";
  let event = "message";
  let data: string[] = [];
  return (piece) => {
    const lines = (rest + piece).split("\n");
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
