// A job as commands to copy. Ids come from the API, yet are quoted as anything else would be.

const shell = (text: string) => (/^[\w./:@=-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`);

export function snippets(id: string, base: string): Record<"curl" | "CLI" | "Python", string> {
  return {
    curl: `curl ${shell(`${base}v1/jobs/${id}`)} \\\n  -H "Authorization: Bearer $FENCEPOST_TOKEN"`,
    CLI: `fencepost jobs show ${shell(id)}`,
    Python: `app.jobs.get(${JSON.stringify(id)})`,
  };
}
