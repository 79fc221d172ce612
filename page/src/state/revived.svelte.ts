// What was asked in vain while the engine was away is asked again once it is back.
import { door } from "../ask/engine";

let times = $state(0);
let away = false;
door.onStatus((status) => {
  if (status === "ready" && away) times += 1;
  away = status === "failed" || (away && status === "starting");
});

/** Read inside an effect that asks: the effect runs again whenever the engine has come back. */
export function revived(): number {
  return times;
}
