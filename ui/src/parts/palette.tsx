// Ctrl-K: places first, acts second (they ask), then jobs.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { get } from "../api/client";
import type { JobSummary, QueueView, JobPage } from "../api/types";
import { count, short } from "../pure/format";
import { locked, setPaused } from "../state/actions";
import { isHelpOpen, isPaletteOpen, SHORTCUTS } from "../state/keys";
import { liveQueues } from "../state/live";
import { PLACES } from "../state/places";
import { go } from "../state/route";
import { toggleTheme } from "../state/theme";
import { Icon } from "./basics";
import { ask, Modal } from "./dialog";

type Option = { id: string; icon: string; state?: string; text: string; note: string; run: () => unknown };
type Group = { name: string; options: Option[] };

const waiting = (queue: QueueView) => queue.counts?.scheduled ?? 0;

function places(queues: QueueView[]): Option[] {
  const types = [...new Set(queues.flatMap((queue) => Object.keys(queue.claimable ?? {})))];
  return [
    ...PLACES.map((place) => ({
      id: `p:${place.path}`, icon: place.icon, text: place.name, note: place.key ? `g ${place.key}` : "",
      run: () => go(place.path),
    })),
    ...queues.map((queue) => ({
      id: `q:${queue.name}`, icon: "queue", text: `Queue ${queue.name}`, note: `${count(waiting(queue))} waiting`,
      run: () => go(`jobs?queue=${encodeURIComponent(queue.name)}`),
    })),
    ...types.map((type) => ({
      id: `t:${type}`, icon: "list", text: `Jobs of type ${type}`, note: "",
      run: () => go(`jobs?type=${encodeURIComponent(type)}`),
    })),
  ];
}

function acts(queues: QueueView[]): Option[] {
  const theme = { id: "a:theme", icon: "theme", text: "Switch between light and dark", note: "t", run: toggleTheme };
  const keys = { id: "a:keys", icon: "info", text: "All shortcuts", note: "?", run: () => (isHelpOpen.value = true) };
  if (locked("operate")) return [theme, keys];
  const pauses = queues.map((queue) => {
    const verb = queue.is_paused ? "Resume" : "Pause";
    return {
      id: `a:${queue.name}`, icon: queue.is_paused ? "play" : "pause", text: `${verb} queue ${queue.name}`,
      note: "asks first", run: () => askPause(queue),
    };
  });
  return [...pauses, theme, keys];
}

function askPause(queue: QueueView): void {
  const isPaused = queue.is_paused === true;
  ask({
    title: `${isPaused ? "Resume" : "Pause"} queue ${queue.name}?`,
    text: isPaused
      ? `${count(waiting(queue))} jobs wait; workers take them again, in order.`
      : `Workers take no more of its jobs. ${count(queue.counts?.running ?? 0)} that run go on.`,
    button: isPaused ? "Resume" : "Pause",
    onYes: () => setPaused("queues", queue.name, !isPaused),
  });
}

/** Jobs whose id begins with what was typed. */
function useFound(text: string): JobSummary[] {
  const [found, setFound] = useState<JobSummary[]>([]);
  useEffect(() => {
    setFound([]);
    const prefix = text.trim().toLowerCase();
    if (!/^[0-9a-f][0-9a-f-]{3,35}$/.test(prefix)) return;
    const stop = new AbortController();
    const timer = setTimeout(() => {
      get<JobPage>(`v1/jobs?limit=5&id_prefix=${prefix}`, stop.signal)
        .then((page) => setFound(page.jobs))
        .catch(() => undefined);
    }, 150);
    return () => {
      clearTimeout(timer);
      stop.abort();
    };
  }, [text]);
  return found;
}

function groups(text: string, jobs: JobSummary[], queues: QueueView[]): Group[] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const fits = (option: Option) => words.every((word) => option.text.toLowerCase().includes(word));
  const limit = words.length ? 8 : PLACES.length;
  return [
    { name: "Jobs", options: jobs.map((job) => ({
      id: job.id, icon: job.state, state: job.state, text: `${job.type} ${short(job.id)}`, note: job.state,
      run: () => go(`jobs/${job.id}`),
    })) },
    { name: "Go to", options: places(queues).filter(fits).slice(0, limit) },
    { name: "Do", options: acts(queues).filter(fits).slice(0, words.length ? 8 : 4) },
  ].filter((group) => group.options.length);
}

export function Palette() {
  return isPaletteOpen.value ? <Opened /> : null;
}

function Opened() {
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const list = useRef<HTMLDivElement>(null);
  const jobs = useFound(text);
  const queues = liveQueues.value ?? [];
  const found = useMemo(() => groups(text, jobs, queues), [text, jobs, queues]);
  const options = found.flatMap((group) => group.options);
  const chosen = options[Math.min(at, options.length - 1)];
  const close = () => (isPaletteOpen.value = false);

  useEffect(() => {
    list.current?.querySelector('[aria-selected="true"]')?.scrollIntoView({ block: "nearest" });
  }, [chosen?.id]);

  function press(event: KeyboardEvent): void {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && options.length) {
      event.preventDefault();
      setAt((Math.min(at, options.length - 1) + step + options.length) % options.length);
    } else if (event.key === "Enter" && chosen) {
      event.preventDefault();
      close();
      chosen.run();
    }
  }
  return (
    <Modal label="Search or act" onClose={close} class="palette">
      <div class="q0">
        <Icon name="search" />
        <input role="combobox" aria-label="Search or act" aria-expanded="true" aria-controls="found" autoComplete="off"
          aria-activedescendant={chosen ? `o-${options.indexOf(chosen)}` : undefined} spellcheck={false}
          placeholder="A page, a queue, a type, the start of a job's id" value={text} onKeyDown={press}
          onInput={(event) => { setText(event.currentTarget.value); setAt(0); }} />
        <kbd>Esc</kbd>
      </div>
      <div class="list" id="found" role="listbox" aria-label="Found" ref={list}>
        {found.map((group) => (
          <div role="group" aria-label={group.name} key={group.name}>
            <h3 role="presentation">{group.name}</h3>
            {group.options.map((option) => (
              <div class="opt" role="option" id={`o-${options.indexOf(option)}`} key={option.id} aria-selected={option === chosen}
                onClick={() => { close(); option.run(); }}>
                <Icon name={option.icon} state={option.state} />
                <span class="tr">{option.text}</span>
                <span class="end">{option.note}</span>
              </div>
            ))}
          </div>
        ))}
        {!options.length && <p class="q nothing">Nothing has this name.</p>}
      </div>
      <div class="foot"><span><kbd>↑</kbd> <kbd>↓</kbd> choose</span><span><kbd>↵</kbd> open</span></div>
    </Modal>
  );
}

export function Help() {
  if (!isHelpOpen.value) return null;
  return (
    <Modal label="Shortcuts" onClose={() => (isHelpOpen.value = false)}>
      <div class="ask">
        <h2>Shortcuts</h2>
        <dl class="kv left">
          {SHORTCUTS.map(([keys, text]) => [
            <dt key={keys}>{keys.split(" ").map((key) => (key === "then" ? " then " : <kbd key={key}>{key}</kbd>))}</dt>,
            <dd key={text}>{text}</dd>,
          ])}
        </dl>
        <div class="row end"><button class="btn" type="button" onClick={() => (isHelpOpen.value = false)}>Close</button></div>
      </div>
    </Modal>
  );
}
