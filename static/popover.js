/** A small panel under the button that opens it; closed by Escape, a click beside it, or leaving it. */

import { show } from "./dom.js";

export class Popover {
  /** @param {HTMLElement} opener a button @param {HTMLElement} element focusable, with an id */
  constructor(opener, element) {
    this.opener = opener;
    this.element = element;
    opener.setAttribute("aria-controls", element.id);
    opener.setAttribute("aria-expanded", "false");
    opener.addEventListener("click", () => this.toggle());
    window.addEventListener("pointerdown", ({ target }) => {
      if (this.open && !element.contains(target) && !opener.contains(target)) this.toggle(false);
    });
    element.addEventListener("focusout", ({ relatedTarget }) => {
      if (this.open && relatedTarget && !element.contains(relatedTarget) && relatedTarget !== opener) this.toggle(false);
    });
    // Captured, so that the same Escape does not also stop an answer.
    window.addEventListener("keydown", (event) => {
      if (event.key !== "Escape" || !this.open) return;
      event.stopImmediatePropagation();
      this.toggle(false);
      opener.focus({ preventScroll: true });
    }, true);
  }

  get open() {
    return !this.element.hidden;
  }

  toggle(open = !this.open) {
    show(this.element, open);
    this.opener.setAttribute("aria-expanded", String(open));
    if (open) this.element.focus({ preventScroll: true });
  }
}
