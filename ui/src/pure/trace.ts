// A traceback in three kinds of lines: frames of libraries, own frames, and the error itself.

export type TraceLine = { text: string; kind: "library" | "own" | "error" };

const FRAME = /^\s+File "(.*)", line (\d+), in (.*)$/;
const LIBRARY = /site-packages|dist-packages|[\\/]lib[\\/]python\d|[\\/]fencepost[\\/]|^<frozen/;

/** The lines with their kinds; where no frame is the user's own, the innermost counts as such. */
export function traceLines(traceback: string): TraceLine[] {
  const lines = kinds(traceback);
  if (lines.some((line) => line.kind === "own")) return lines;
  const last = lines.findLastIndex((line) => FRAME.test(line.text));
  return lines.map((line, index) => (last >= 0 && index >= last && line.kind === "library" ? { ...line, kind: "own" } : line));
}

function kinds(traceback: string): TraceLine[] {
  let kind: TraceLine["kind"] = "library";
  const lines = traceback.replace(/\n+$/, "").split("\n");
  return lines.map((text, index) => {
    const frame = FRAME.exec(text);
    if (frame) kind = LIBRARY.test(frame[1]!) ? "library" : "own";
    else if (!/^\s/.test(text)) {
      const isHead = text.startsWith("Traceback") || text === "";
      return { text, kind: isHead || index === 0 ? "library" : "error" };
    }
    return { text, kind };
  });
}

export type Frame = { file: string; line: number; name: string };

/** The innermost frame of the user's own code; null if there is none. */
export function ownFrame(traceback: string | null | undefined): Frame | null {
  let found: Frame | null = null;
  for (const line of (traceback ?? "").split("\n")) {
    const frame = FRAME.exec(line);
    if (frame && !LIBRARY.test(frame[1]!)) {
      found = { file: frame[1]!, line: Number(frame[2]), name: frame[3]! };
    }
  }
  return found;
}

/** The last parts of a path: /srv/app/shop/gateway.py is shop/gateway.py. */
export const shortPath = (path: string) => path.split(/[\\/]/).slice(-2).join("/");

/** The class of an error without its module. */
export const className = (name: string | null | undefined) => (name ?? "").split(".").pop() ?? "";
