// One of many names, from a list; the first choice is all of them.

export function Pick({ label, all, names, value, onChange, shown = (name) => name }: {
  label: string; all: string; names: readonly string[]; shown?: (name: string) => string; value: string | null; onChange: (value: string | null) => void;
}) {
  const known = value !== null && !names.includes(value) ? [value, ...names] : names;
  return (
    <select class="names" aria-label={label} value={value ?? ""} onChange={(event) => onChange(event.currentTarget.value || null)}>
      <option value="">{all}</option>
      {known.map((name) => <option key={name} value={name}>{shown(name)}</option>)}
    </select>
  );
}
