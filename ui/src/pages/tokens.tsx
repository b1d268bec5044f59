// Tokens: made once, shown once.

import { useState } from "preact/hooks";
import { useQuery } from "../api/query";
import type { Tokens as TokensReply, TokenView } from "../api/types";
import { Act, Command, CopyButton, Empty, Loading, Panel, Problem, Stale, Time } from "../parts/basics";
import { ask, Modal } from "../parts/dialog";
import { Page } from "../parts/shell";
import { act, locked } from "../state/actions";

const ROLES = ["read", "submit", "work", "operate", "admin"];

export function Tokens() {
  const read = useQuery<TokensReply>("v1/tokens", { every: 10, pace: 5 });
  const [isOpen, setOpen] = useState(false);
  const tokens = read.data?.tokens;
  return (
    <Page title="Tokens">
      <Stale error={read.error} at={read.at} />
      <Panel title="Tokens" tools={tokens && <Act role={locked("admin")} kind="pri" onClick={() => setOpen(true)}>New token…</Act>}>
        {!tokens ? (read.error ? <Problem error={read.error} /> : <Loading rows={4} />)
          : !tokens.length ? <Empty title="No token yet" command="fencepost tokens create NAME --role admin">As long as there is none, this machine may do everything, and the server listens only here.</Empty>
          : <div class="scroll"><table class="cards acted"><thead><tr><th>Name</th><th>Roles</th><th>Queues</th><th>Made</th><th>Expires</th><th class="n">Actions</th></tr></thead><tbody>{tokens.map((token) => <TokenRow key={token.id} token={token} />)}</tbody></table></div>}
      </Panel>
      {isOpen && <NewToken onClose={() => setOpen(false)} />}
    </Page>
  );
}

function TokenRow({ token }: { token: TokenView }) {
  return (
    <tr class={token.revoked_at ? "off" : ""}>
      <td><b>{token.name}</b></td><td>{token.roles.join(", ")}</td><td class="h">{token.queues?.join(", ") ?? "all"}</td><td class="h"><Time at={token.created_at} /></td>
      <td class="h">{token.revoked_at ? <>revoked <Time at={token.revoked_at} /></> : token.expires_at ? <Time at={token.expires_at} /> : "never"}</td>
      <td class="sub do"><span class="row acts">{!token.revoked_at && <Act role={locked("admin")} kind="quiet danger" onClick={() => ask({
        title: `Revoke ${token.name}?`, text: "What uses it is refused within five seconds. It cannot be taken back.", button: "Revoke", isDangerous: true,
        onYes: () => act("DELETE", `v1/tokens/${token.id}`, `${token.name} is revoked.`, { role: "admin" }),
      })}>Revoke…</Act>}</span></td>
    </tr>
  );
}

function NewToken({ onClose }: { onClose: () => void }) {
  const [name, setName] = useState("");
  const [roles, setRoles] = useState<string[]>(["read"]);
  const [made, setMade] = useState<string | null>(null);
  async function make(event: Event): Promise<void> {
    event.preventDefault();
    const reply = await act<{ token: string }>("POST", "v1/tokens", "The token is made.", { body: { name: name.trim(), roles }, role: "admin" });
    if (reply) setMade(reply.token);
  }
  return (
    <Modal label="New token" onClose={onClose}>
      {made !== null ? (
        <div class="ask"><h2>{name}</h2><p class="m">This is shown once: copy it now.</p><Command text={made} /><div class="row end"><CopyButton text={made} /><button class="btn" type="button" onClick={onClose}>Close</button></div></div>
      ) : (
        <form class="ask" onSubmit={(event) => void make(event)}>
          <h2>New token</h2>
          <label class="stack8"><span>Name</span><input class="inp" required value={name} onInput={(event) => setName(event.currentTarget.value)} /></label>
          <fieldset class="plainset stack8"><legend>Roles</legend>
            {ROLES.map((role) => <label class="choice" key={role}><input type="checkbox" checked={roles.includes(role)} onChange={() => setRoles(roles.includes(role) ? roles.filter((each) => each !== role) : [...roles, role])} /><span>{role}</span></label>)}
          </fieldset>
          <div class="row end"><button class="btn" type="button" onClick={onClose}>Not now</button><button class="btn pri" type="submit" disabled={!name.trim() || !roles.length}>Make it</button></div>
        </form>
      )}
    </Modal>
  );
}
