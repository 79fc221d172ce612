// What may come a moment later: while a value is dragged, only the numbers and the charts follow every step.
import { app } from "../app";

/** Follow a value, but not while the scenario is being dragged; then it comes with the last step. */
export function calm<T>(make: () => T): { readonly now: T } {
  let now = $state.raw(make());
  $effect.pre(() => {
    if (!app.moving) now = make();
  });
  return {
    get now() {
      return now;
    },
  };
}
