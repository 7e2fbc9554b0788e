/** Gradio's settings sidebar as the stage sees it: opened by our button, closed by Escape or a click beside it. */

export class Sidebar {
  /**
   * @param {string} id of the sidebar element, which Gradio makes after the stage
   * @param {HTMLElement} stage
   * @param {HTMLElement} opener focus returns to it
   */
  constructor(id, stage, opener) {
    this.id = id;
    this.opener = opener;
    opener.setAttribute("aria-controls", id);
    opener.setAttribute("aria-expanded", "false");
    opener.addEventListener("click", () => this.toggle());
    stage.addEventListener("pointerdown", ({ target }) => {
      if (this.open && !opener.contains(target)) this.toggle();
    });
    // Captured, so that the same Escape does not also stop an answer.
    window.addEventListener("keydown", (event) => {
      if (event.key !== "Escape" || !this.open) return;
      event.stopImmediatePropagation();
      this.toggle();
    }, true);
  }

  get element() {
    return document.getElementById(this.id);
  }

  get open() {
    return this.element?.classList.contains("open") ?? false;
  }

  async toggle() {
    const button = this.element?.querySelector(".toggle-button");
    if (!button) return;
    button.setAttribute("aria-label", "Close settings");
    button.click();
    await new Promise((resolve) => setTimeout(resolve, 60)); // Gradio applies the class in a later task
    this.opener.setAttribute("aria-expanded", String(this.open));
    (this.open ? button : this.opener).focus({ preventScroll: true });
  }
}
