// One field. A refusal does not say which of unknown, expired or revoked it was.

import { useEffect, useState } from "preact/hooks";
import { ApiError } from "../api/client";
import { signIn } from "../api/session";
import { Command, Icon } from "../parts/basics";
import { Toasts } from "../parts/toasts";

const COMMAND = "fencepost tokens create oncall --role read --role operate";

export function SignIn() {
  const [text, setText] = useState("");
  const [error, setError] = useState("");
  const [isBusy, setBusy] = useState(false);
  useEffect(() => {
    document.title = "Sign in · Fencepost";
  }, []);

  async function submit(event: Event): Promise<void> {
    event.preventDefault();
    setBusy(true);
    setError("");
    try {
      await signIn(text.trim());
    } catch (thrown) {
      const isOut = thrown instanceof ApiError && thrown.status === 401;
      setError(isOut ? "This token is not valid here." : thrown instanceof Error ? thrown.message : String(thrown));
    }
    setBusy(false);
  }
  return (
    <main class="sign">
      <form onSubmit={(event) => void submit(event)}>
        <div class="brand nopad"><Icon name="post" />Fencepost</div>
        <h1>Sign in</h1>
        <label for="token">Token</label>
        <input id="token" class="inp" type="password" name="token" autoComplete="off" spellcheck={false} required
          aria-invalid={error !== ""} aria-describedby="token-note" placeholder="fp_…" value={text}
          onInput={(event) => setText(event.currentTarget.value)} />
        <p class="q sm" id="token-note">It goes to this server alone, and never into an address or a log.</p>
        {error && <p class="c s-refused" role="alert">{error}</p>}
        <button class="btn pri big" type="submit" disabled={isBusy || !text.trim()}>Sign in</button>
        <p class="q sm">No token yet? On the server:</p>
        <Command text={COMMAND} />
      </form>
      <Toasts />
    </main>
  );
}
