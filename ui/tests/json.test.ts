import { describe, expect, it } from "vitest";
import { field, parseExact, write } from "../src/pure/json";

describe("JSON that keeps every digit", () => {
  it.each([
    '{"a":9007199254740993,"b":1.0,"c":-0,"d":1e400}', "[]", "{}", '[1,[2,{"x":null}],true,false]', '"\\u0041\\n\\"</script>"', "0.1",
    '{"__proto__":1,"constructor":{"toString":2}}', '{"a":1,"a":2}',
  ])("writes %s as it was", (text) => {
    const written = write(parseExact(text), "");
    expect(written).toBe(text.replace("\\u0041", "A"));
  });

  it("says of everything that JSON.parse reads or refuses the same", () => {
    const texts = [
      "", " ", "[1,]", "{,}", '{"a" 1}', "01", "1.", ".5", "+1", "NaN", "'a'", '"\n"', '"\\x"', "[1 2]", "nul", "[", '{"a":}', "1 2", "-", "1e", '"\\u12"',
      " { \"a\" : [ 1 , 2 ] } ", "-1.5e+10", '"\\ud83d\\ude00"', "\t[\r\n]",
    ];
    for (const text of texts) {
      let isJson = true;
      try { JSON.parse(text); } catch { isJson = false; }
      if (isJson) expect(JSON.parse(write(parseExact(text)))).toEqual(JSON.parse(text));
      else expect(() => parseExact(text), text).toThrow(SyntaxError);
    }
  });

  it("is bounded in depth, and does not look up what an object inherits", () => {
    expect(() => parseExact("[".repeat(5000))).toThrow(SyntaxError);
    expect(field(parseExact("{}"), "toString")).toBeUndefined();
    expect(field(parseExact('{"toString":1}'), "toString")).toEqual({ kind: "number", text: "1" });
  });
});
