// The glyphs: every state has a shape of its own, so that colour never stands alone.

export function Sprite() {
  return (
    <svg class="vh" width="0" height="0" aria-hidden="true">
      <symbol id="g-alert" viewBox="0 0 16 16">
        <path d="M8 1.6 15 14H1z" fill="currentColor" stroke="currentColor" stroke-linejoin="round" />
        <path d="M8 6v3.6" stroke="var(--surface)" stroke-width="1.7" stroke-linecap="round" />
        <circle cx="8" cy="11.8" r=".95" fill="var(--surface)" />
      </symbol>
      <symbol id="g-cancelled" viewBox="0 0 16 16">
        <circle cx="8" cy="8" r="6.5" fill="currentColor" />
        <path d="M5 8h6" stroke="var(--surface)" stroke-width="1.9" stroke-linecap="round" />
      </symbol>
      <symbol id="g-check" viewBox="0 0 16 16">
        <path d="m3.5 8.4 3 3 6-6.6" fill="none" stroke="currentColor" stroke-width="1.8" stroke-linecap="round" stroke-linejoin="round" />
      </symbol>
      <symbol id="g-chev" viewBox="0 0 16 16">
        <path d="m6 3.5 4.5 4.5L6 12.5" fill="none" stroke="currentColor" stroke-width="1.7" stroke-linecap="round" stroke-linejoin="round" />
      </symbol>
      <symbol id="g-completed" viewBox="0 0 16 16">
        <circle cx="8" cy="8" r="6.5" fill="currentColor" />
        <path d="m5.1 8.2 2 2 3.8-4.1" fill="none" stroke="var(--surface)" stroke-width="1.75" stroke-linecap="round" stroke-linejoin="round" />
      </symbol>
      <symbol id="g-copy" viewBox="0 0 16 16">
        <rect x="5.5" y="5.5" width="8" height="8" rx="1.5" fill="none" stroke="currentColor" stroke-width="1.5" />
        <path d="M10.5 3.5v-1h-8v8h1" fill="none" stroke="currentColor" stroke-width="1.5" />
      </symbol>
      <symbol id="g-cron" viewBox="0 0 16 16">
        <circle cx="8" cy="8" r="5.8" fill="none" stroke="currentColor" stroke-width="1.5" />
        <path d="M8 4.6V8l2.4 1.6" fill="none" stroke="currentColor" stroke-width="1.5" stroke-linecap="round" />
      </symbol>
      <symbol id="g-cross" viewBox="0 0 16 16">
        <path d="m4 4 8 8M12 4l-8 8" fill="none" stroke="currentColor" stroke-width="1.8" stroke-linecap="round" />
      </symbol>
      <symbol id="g-dead_letter" viewBox="0 0 16 16">
        <path d="M1 3.2h14v9.6H1z" fill="currentColor" stroke="currentColor" stroke-linejoin="round" />
        <path d="m1.8 4 6.2 5 6.2-5" fill="none" stroke="var(--surface)" stroke-width="1.6" />
      </symbol>
      <symbol id="g-delayed" viewBox="0 0 16 16">
        <circle cx="8" cy="8" r="5.5" fill="none" stroke="currentColor" stroke-width="1.75" />
        <path d="M8 5v3.2l2 1.3" fill="none" stroke="currentColor" stroke-width="1.6" stroke-linecap="round" stroke-linejoin="round" />
      </symbol>
      <symbol id="g-event" viewBox="0 0 16 16">
        <path d="M9 1.5 3.5 9H8l-1 5.5L12.5 7H8z" fill="none" stroke="currentColor" stroke-width="1.4" stroke-linejoin="round" />
      </symbol>
      <symbol id="g-failed" viewBox="0 0 16 16">
        <rect x="1.8" y="1.8" width="12.4" height="12.4" rx="2.5" fill="currentColor" />
        <path d="m5.6 5.6 4.8 4.8m0-4.8-4.8 4.8" fill="none" stroke="var(--surface)" stroke-width="1.75" stroke-linecap="round" />
      </symbol>
      <symbol id="g-flow" viewBox="0 0 16 16">
        <circle cx="3.2" cy="8" r="1.9" fill="none" stroke="currentColor" stroke-width="1.5" />
        <circle cx="12.8" cy="3.6" r="1.9" fill="none" stroke="currentColor" stroke-width="1.5" />
        <circle cx="12.8" cy="12.4" r="1.9" fill="none" stroke="currentColor" stroke-width="1.5" />
        <path d="m5 7.2 5.9-2.7M5 8.8l5.9 2.7" stroke="currentColor" stroke-width="1.5" />
      </symbol>
      <symbol id="g-home" viewBox="0 0 16 16">
        <path d="M2 13h3V8H2zM6.5 13h3V3h-3zM11 13h3V6h-3z" fill="currentColor" />
      </symbol>
      <symbol id="g-info" viewBox="0 0 16 16">
        <circle cx="8" cy="8" r="6" fill="none" stroke="currentColor" stroke-width="1.6" />
        <path d="M8 7.4v3.4" stroke="currentColor" stroke-width="1.6" stroke-linecap="round" />
        <circle cx="8" cy="5.1" r=".95" fill="currentColor" />
      </symbol>
      <symbol id="g-key" viewBox="0 0 16 16">
        <circle cx="5" cy="11" r="3" fill="none" stroke="currentColor" stroke-width="1.5" />
        <path d="m7.2 8.8 6-6M11 5l2 2" stroke="currentColor" stroke-width="1.5" stroke-linecap="round" />
      </symbol>
      <symbol id="g-list" viewBox="0 0 16 16">
        <path d="M2 4h12M2 8h12M2 12h8" stroke="currentColor" stroke-width="1.6" stroke-linecap="round" />
      </symbol>
      <symbol id="g-lock" viewBox="0 0 16 16">
        <rect x="3.5" y="7" width="9" height="6.5" rx="1.2" fill="currentColor" />
        <path d="M5.5 7V5a2.5 2.5 0 0 1 5 0v2" fill="none" stroke="currentColor" stroke-width="1.5" />
      </symbol>
      <symbol id="g-log" viewBox="0 0 16 16">
        <path d="M3.5 2h9v12h-9z" fill="none" stroke="currentColor" stroke-width="1.5" stroke-linejoin="round" />
        <path d="M6 5.5h4M6 8h4M6 10.5h2" stroke="currentColor" stroke-width="1.4" />
      </symbol>
      <symbol id="g-mail" viewBox="0 0 16 16">
        <rect x="1.6" y="3" width="12.8" height="10" rx="1.5" fill="none" stroke="currentColor" stroke-width="1.5" />
        <path d="m2 4 6 5 6-5" fill="none" stroke="currentColor" stroke-width="1.5" />
      </symbol>
      <symbol id="g-more" viewBox="0 0 16 16">
        <circle cx="3" cy="8" r="1.4" fill="currentColor" />
        <circle cx="8" cy="8" r="1.4" fill="currentColor" />
        <circle cx="13" cy="8" r="1.4" fill="currentColor" />
      </symbol>
      <symbol id="g-out" viewBox="0 0 16 16">
        <path d="M6.5 3h-3v10h3M9.5 5l3 3-3 3M12.5 8H6.5" fill="none" stroke="currentColor" stroke-width="1.5" stroke-linecap="round" stroke-linejoin="round" />
      </symbol>
      <symbol id="g-pause" viewBox="0 0 16 16">
        <path d="M5 3.5v9M11 3.5v9" stroke="currentColor" stroke-width="2.4" stroke-linecap="round" />
      </symbol>
      <symbol id="g-pending" viewBox="0 0 16 16">
        <circle cx="8" cy="8" r="5.5" fill="none" stroke="currentColor" stroke-width="1.75" stroke-dasharray="2.2 2.1" />
      </symbol>
      <symbol id="g-play" viewBox="0 0 16 16">
        <path d="M5 3.2v9.6L12.6 8z" fill="currentColor" />
      </symbol>
      <symbol id="g-post" viewBox="0 0 16 16">
        <path d="M3 14V4.2L4.5 2 6 4.2V14zM10 14V4.2L11.5 2 13 4.2V14z" fill="currentColor" />
        <path d="M1 7h14M1 11h14" stroke="currentColor" stroke-width="1.6" />
      </symbol>
      <symbol id="g-queue" viewBox="0 0 16 16">
        <rect x="2" y="2.5" width="12" height="3" rx="1" fill="currentColor" />
        <rect x="2" y="6.8" width="12" height="3" rx="1" fill="none" stroke="currentColor" stroke-width="1.3" />
        <rect x="2" y="11" width="12" height="3" rx="1" fill="none" stroke="currentColor" stroke-width="1.3" />
      </symbol>
      <symbol id="g-refused" viewBox="0 0 16 16">
        <path d="M3 2v12M13 2v12" stroke="currentColor" stroke-width="2" stroke-linecap="round" />
        <path d="m5.4 5.4 5.2 5.2m0-5.2-5.2 5.2" stroke="currentColor" stroke-width="1.9" stroke-linecap="round" />
      </symbol>
      <symbol id="g-retrying" viewBox="0 0 16 16">
        <path d="M13.2 8A5.2 5.2 0 1 1 11.4 4" fill="none" stroke="currentColor" stroke-width="1.75" stroke-linecap="round" />
        <path d="M12.6 1.4v3.4H9.2z" fill="currentColor" />
      </symbol>
      <symbol id="g-running" viewBox="0 0 16 16">
        <circle cx="8" cy="8" r="5.5" fill="none" stroke="currentColor" stroke-width="1.75" />
        <path d="M8 4.6a3.4 3.4 0 0 1 0 6.8z" fill="currentColor" />
      </symbol>
      <symbol id="g-scheduled" viewBox="0 0 16 16">
        <circle cx="8" cy="8" r="5.5" fill="none" stroke="currentColor" stroke-width="1.75" />
        <path d="M6.8 5.6 9.3 8l-2.5 2.4" fill="none" stroke="currentColor" stroke-width="1.6" stroke-linecap="round" stroke-linejoin="round" />
      </symbol>
      <symbol id="g-search" viewBox="0 0 16 16">
        <circle cx="7" cy="7" r="4.5" fill="none" stroke="currentColor" stroke-width="1.6" />
        <path d="m10.5 10.5 3.5 3.5" stroke="currentColor" stroke-width="1.6" stroke-linecap="round" />
      </symbol>
      <symbol id="g-sys" viewBox="0 0 16 16">
        <path d="M2 8h2.5l2-5 3 10 2-5H14" fill="none" stroke="currentColor" stroke-width="1.5" stroke-linejoin="round" stroke-linecap="round" />
      </symbol>
      <symbol id="g-theme" viewBox="0 0 16 16">
        <circle cx="8" cy="8" r="5.5" fill="none" stroke="currentColor" stroke-width="1.6" />
        <path d="M8 2.5a5.5 5.5 0 0 1 0 11z" fill="currentColor" />
      </symbol>
      <symbol id="g-worker" viewBox="0 0 16 16">
        <rect x="2.2" y="2.2" width="11.6" height="11.6" rx="2" fill="none" stroke="currentColor" stroke-width="1.5" />
        <rect x="5.4" y="5.4" width="5.2" height="5.2" rx="1" fill="currentColor" />
      </symbol>
      <symbol id="g-x" viewBox="0 0 16 16">
        <path d="m4 4 8 8m0-8-8 8" stroke="currentColor" stroke-width="1.8" stroke-linecap="round" />
      </symbol>
    </svg>
  );
}
