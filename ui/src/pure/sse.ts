// Server-sent events as they come over fetch, which can send a token; EventSource cannot.

export type ServerEvent = { type: string; data: string; id: string | null };

/** Return a function that takes text as it arrives and returns the events that are complete. */
export function eventReader(): (text: string) => ServerEvent[] {
  let rest = "";
  return (text) => {
    rest += text;
    const parts = rest.split(/\r?\n\r?\n/);
    rest = parts.pop() ?? "";
    return parts.map(readEvent).filter((event) => event !== null);
  };
}

function readEvent(part: string): ServerEvent | null {
  let type = "message";
  let id: string | null = null;
  const data: string[] = [];
  for (const line of part.split(/\r?\n/)) {
    const colon = line.indexOf(":");
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (name === "event") type = value;
    else if (name === "data") data.push(value);
    else if (name === "id") id = value;
  }
  // An id alone is not an event, but the place to go on from.
  return data.length || id !== null ? { type, data: data.join("\n"), id } : null;
}
