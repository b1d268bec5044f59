// How often jobs of a type may start: as one writes it, and in words.

export type Rate = { count: number; window: number };

const UNITS: Record<number, [letter: string, word: string]> = { 1: ["s", "a second"], 60: ["m", "a minute"], 3600: ["h", "an hour"], 86_400: ["d", "a day"] };

/** "100/m", "10/30s": what the API reads back. */
export const rateText = ({ count, window }: Rate) => `${count}/${UNITS[window]?.[0] ?? `${window}s`}`;

/** "100 a minute", "10 in 30 s". */
export function rateWords({ count, window }: Rate): string {
  return `${count.toLocaleString("en-US")} ${UNITS[window]?.[1] ?? `in ${window} s`}`;
}

/** Whether *text* is written like a rate; the API knows which there are. */
export const isRate = (text: string) => /^\d+\s*\/\s*\S+$/.test(text.trim());
