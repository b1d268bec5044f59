import { dismiss, toast } from "../state/toast";
import { Icon } from "./basics";

export function Toasts() {
  const shown = toast.value;
  return (
    <div aria-live={shown?.isBad ? "assertive" : "polite"}>
      {shown && (
        <div class="toast">
          <span>{shown.text}</span>
          {shown.undo && (
            <button class="btn" type="button" onClick={() => { dismiss(); shown.undo!(); }}>Undo</button>
          )}
          <button class="btn ico" type="button" aria-label="Dismiss" onClick={dismiss}>
            <Icon name="x" />
          </button>
        </div>
      )}
    </div>
  );
}
