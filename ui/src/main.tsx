// The page: sign-in until the server knows us, then the page of the address.

import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import { lookAround, me, needsSignIn } from "./api/session";
import { Empty, Problem } from "./parts/basics";
import { Page, Shell } from "./parts/shell";
import { Sprite } from "./parts/sprite";
import { ApiError } from "./api/client";
import { SignIn } from "./pages/sign-in";
import { PAGES } from "./pages";
import { path } from "./state/route";
import "./state/keys";
import "./state/theme";
import "./styles/index.css";

const RETRY = 2000;

function App() {
  const [error, setError] = useState<ApiError | null>(null);
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    async function look(): Promise<void> {
      try {
        await lookAround();
        setError(null);
      } catch (thrown) {
        setError(thrown instanceof ApiError ? thrown : new ApiError(0, "unknown", String(thrown)));
        timer = setTimeout(look, RETRY);
      }
    }
    void look();
    return () => clearTimeout(timer);
  }, []);
  if (needsSignIn.value) return <SignIn />;
  if (me.value === undefined && !error) return null;
  return <Shell>{me.value === undefined ? <Page title="Fencepost"><Problem error={error!} /></Page> : <Content />}</Shell>;
}

function Content() {
  const parts = path.value.split("/");
  const Found = PAGES[parts.length > 1 ? `${parts[0]}/` : parts[0]!];
  if (!Found) {
    return (
      <Page title="Not found">
        <section class="panel"><Empty title="There is no such page">The side bar has all of them.</Empty></section>
      </Page>
    );
  }
  return <Found id={decodeURIComponent(parts[1] ?? "")} key={path.value} />;
}

render(<><Sprite /><App /></>, document.getElementById("root")!);
