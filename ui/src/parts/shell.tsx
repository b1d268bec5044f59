// What is around every page: side bar, top bar, the small bar of phones, and what floats.

import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { me, rolesText, signOut } from "../api/session";
import { count, engineName } from "../pure/format";
import { isPaletteOpen } from "../state/keys";
import { isPaused, link, liveQueues } from "../state/live";
import { PLACES, placeOf, TABS, type Place } from "../state/places";
import { path } from "../state/route";
import { isDark, toggleTheme } from "../state/theme";
import { Icon, Link } from "./basics";
import { Modal, Questions } from "./dialog";
import { Help, Palette } from "./palette";
import { Toasts } from "./toasts";

/** How many there are now, from the queues that the stream brings. */
function counts(): Record<string, number> {
  const sums: Record<string, number> = {};
  for (const queue of liveQueues.value ?? []) {
    for (const [state, value] of Object.entries(queue.counts ?? {})) sums[state] = (sums[state] ?? 0) + value;
  }
  return sums;
}

const LIVE_STATES = ["pending", "scheduled", "delayed", "running", "retrying"];

function noteOf(place: Place): { value: number; state?: string } | null {
  if (!liveQueues.value) return null;
  const sums = counts();
  if (place.path === "jobs") return { value: LIVE_STATES.reduce((sum, state) => sum + (sums[state] ?? 0), 0) };
  if (place.path === "dead-letters") return { value: sums.dead_letter ?? 0, state: "dead_letter" };
  if (place.path === "queues") return { value: liveQueues.value.length };
  return null;
}

function NavLink({ place }: { place: Place }) {
  const note = noteOf(place);
  const isHere = placeOf(path.value) === place;
  return (
    <Link to={place.path} class="nav" aria-current={isHere ? "page" : undefined}>
      <Icon name={place.icon} />
      {place.name}
      {note !== null && note.value > 0 && (
        <span class={`cnt ${note.state ? `c s-${note.state}` : ""}`}>{count(note.value)}</span>
      )}
    </Link>
  );
}

function Who() {
  const known = me.value;
  if (known === undefined || known?.by === "local") return <div class="end nav q">No token needed here</div>;
  return (
    <div class="end row who">
      <Icon name="key" />
      <span class="tr">{known?.name ?? "signed in"}</span>
      <span class="q sm tr">{rolesText()}</span>
      <span class="grow" />
      <button class="btn ico quiet" type="button" aria-label="Sign out" title="Sign out" onClick={() => void signOut()}>
        <Icon name="out" />
      </button>
    </div>
  );
}

function StoreCard() {
  const known = me.value;
  if (!known) return null;
  const engine = engineName(known.store.engine);
  return (
    <div class="store sm">
      <div class="row">
        <span class={`livedot is-${link.value}`} />
        <b class="tr">{known.app ?? location.host}</b>
      </div>
      <div class="q tr">{[engine, known.store.durability?.split(":")[0]].filter(Boolean).join(", ")}</div>
    </div>
  );
}

export function SideBar() {
  return (
    <nav class="side" aria-label="Main">
      <Link to="" class="brand"><Icon name="post" />Fencepost</Link>
      <StoreCard />
      {[0, 1, 2].map((group) => (
        <div key={group}>
          {group > 0 && <div class="sep" />}
          {PLACES.filter((place) => place.group === group).map((place) => <NavLink place={place} key={place.path} />)}
        </div>
      ))}
      <Who />
    </nav>
  );
}

const LINKS = { live: "Live", connecting: "Connecting", away: "Away" };

function LiveButton() {
  const text = isPaused.value ? "Paused" : LINKS[link.value];
  return (
    <button class="live" type="button" aria-pressed={isPaused.value} title="Pause live updates (p)"
      onClick={() => (isPaused.value = !isPaused.value)}>
      <span class={`livedot is-${link.value}`} />
      <span>{text}</span>
    </button>
  );
}

export function TopBar({ title, above }: { title: string; above?: { path: string; name: string } }) {
  useEffect(() => {
    document.title = `${title} · Fencepost`;
  }, [title]);
  return (
    <header class="top">
      {above && <span class="crumb row"><Link to={above.path}>{above.name}</Link><span>/</span></span>}
      <h1 class={`tr ${above ? "mono" : ""}`}>{title}</h1>
      <span class="grow" />
      <button class="find" type="button" onClick={() => (isPaletteOpen.value = true)}>
        <Icon name="search" /><span>Search or act</span><kbd aria-hidden="true">Ctrl K</kbd>
      </button>
      <LiveButton />
      <button class="btn ico quiet" type="button" onClick={toggleTheme}
        aria-label={isDark.value ? "Switch to light" : "Switch to dark"}>
        <Icon name="theme" />
      </button>
    </header>
  );
}

function TabBar() {
  const [isOpen, setOpen] = useState(false);
  useEffect(() => setOpen(false), [path.value]);
  return (
    <nav class="tabbar" aria-label="Main, small">
      {PLACES.filter((place) => TABS.includes(place.path)).map((place) => {
        const note = place.path === "dead-letters" ? noteOf(place)?.value : 0;
        return (
          <Link to={place.path} key={place.path} aria-current={placeOf(path.value) === place ? "page" : undefined}>
            <Icon name={place.icon} />
            {place.name.split(" ")[0]}
            {note ? <em>{count(note)}</em> : null}
          </Link>
        );
      })}
      <button type="button" aria-expanded={isOpen} onClick={() => setOpen(true)}><Icon name="more" />More</button>
      {isOpen && (
        <Modal label="More pages" onClose={() => setOpen(false)}>
          <div class="ask">
            {PLACES.filter((place) => !TABS.includes(place.path)).map((place) => <NavLink place={place} key={place.path} />)}
            <Who />
          </div>
        </Modal>
      )}
    </nav>
  );
}

export function Shell({ children }: { children: ComponentChildren }) {
  return (
    <>
      <a class="skip" href="#main" data-plain>Skip to the content</a>
      <div class="app">
        <SideBar />
        <div class="main">{children}</div>
      </div>
      <TabBar />
      <Palette />
      <Help />
      <Questions />
      <Toasts />
    </>
  );
}

export function Page({ title, above, children }: {
  title: string; above?: { path: string; name: string }; children: ComponentChildren;
}) {
  return (
    <>
      <TopBar title={title} above={above} />
      <main class="page" id="main" tabIndex={-1}>
        {link.value === "away" && <AwayBanner />}
        {children}
      </main>
    </>
  );
}

function AwayBanner() {
  return (
    <div class="banner s-retrying" role="status">
      <Icon name="alert" state="retrying" />
      <span>The connection is lost. What is shown may be old; trying again.</span>
    </div>
  );
}
