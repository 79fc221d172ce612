// A label that is dragged sideways steps its field; a press alone still goes to the field.
const PIXELS = 8;

export function drag(step: (up: boolean) => void): (label: HTMLElement) => () => void {
  return (label) => {
    function down(event: PointerEvent): void {
      if (event.button !== 0) return;
      let at = event.clientX;
      let moved = false;
      const move = (next: PointerEvent): void => {
        for (; Math.abs(next.clientX - at) >= PIXELS; moved = true) {
          const up = next.clientX > at;
          at += up ? PIXELS : -PIXELS;
          step(up);
        }
      };
      const end = (): void => {
        removeEventListener("pointermove", move);
        removeEventListener("pointerup", end);
        removeEventListener("pointercancel", end);
        if (!moved) return;
        const kept = (click: Event): void => click.preventDefault();
        addEventListener("click", kept, { capture: true });
        setTimeout(() => removeEventListener("click", kept, { capture: true }));
      };
      addEventListener("pointermove", move);
      addEventListener("pointerup", end);
      addEventListener("pointercancel", end);
    }
    label.addEventListener("pointerdown", down);
    return () => label.removeEventListener("pointerdown", down);
  };
}
