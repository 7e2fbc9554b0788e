/** The engine on the page: chip and its popover, the card's note, the bar above the question, the settings. */

import { h, prose, setText, show } from "./dom.js";
import { icon } from "./icons.js";
import { abilities, terms } from "./model.js";
import { Popover } from "./popover.js";

const SETTINGS_BLOCK_ID = "sightline-model"; // in Gradio's sidebar, which is made after the stage

export class EngineView {
  /**
   * @param {Object<string, HTMLElement>} view
   * @param {import("./engine.js").EngineWatch} engine
   * @param {import("./figures.js").Figures} figures
   */
  constructor(view, engine, figures) {
    this.view = view;
    this.engine = engine;
    this.figures = figures;
    this.popover = new Popover(view.engine, view.engineDetails);
    this.drawn = new Map(); // element → what it shows, so that it is only made anew when that changes
    view.engine.addEventListener("click", () => this.details());
  }

  /** @param {boolean} inSession */
  render(inSession) {
    const { view, engine } = this;
    this.inSession = inSession;
    const { label } = engine;
    const trouble = engine.trouble(inSession);
    show(view.engine, label != null);
    if (label) {
      this.draw(view.engineText, label, () => [
        h("span", { class: "extra" }, label.before), h("b", {}, label.main), h("span", { class: "extra" }, label.after)]);
      view.engine.title = [engine.info?.description, engine.detail].filter(Boolean).join(" — ");
    }
    show(view.cardEngine, trouble != null);
    show(view.engineBar, inSession && trouble != null);
    if (trouble) {
      this.draw(view.cardEngine, trouble, () => words(trouble));
      setText(view.engineBarTitle, `${trouble.title}.`);
      this.draw(view.engineBarText, trouble, () => [...prose(trouble.detail), " ", trouble.hint]);
      this.draw(view.engineBarIcon, { failed: engine.phase === "failed" }, () => [icon(engine.phase === "failed" ? "alert" : "spinner")]);
    } else setText(view.engineBarTitle, "");
    this.settings();
    if (this.popover.open) this.details();
  }

  /** The popover: what answers, how it is, what it can do, what it did in this session. */
  details() {
    const { engine, figures } = this;
    const { info } = engine;
    const trouble = engine.trouble(this.inSession);
    const can = info ? abilities(engine) : [];
    const rows = figures.rows;
    this.draw(this.view.engineDetails, { info, trouble, can, rows }, () => [
      h("h2", {}, info ? `${info.name} · ${info.model}` : "Engine"),
      info?.description ? h("p", {}, info.description) : null,
      trouble ? h("div", { class: "engine-note" }, ...words(trouble)) : null,
      can.length ? terms(can) : null,
      rows.length ? h("h3", {}, "This session") : null,
      rows.length ? terms(rows) : null,
    ]);
  }

  settings() {
    const block = document.getElementById(SETTINGS_BLOCK_ID);
    const { info } = this.engine;
    if (!block || !info) return;
    const can = abilities(this.engine);
    this.draw(block, { info, can }, () => [h("h3", {}, `${info.name} · ${info.model}`), h("p", {}, info.description), terms(can)]);
  }

  draw(element, shown, make) {
    const key = JSON.stringify(shown);
    if (this.drawn.get(element) === key) return;
    this.drawn.set(element, key);
    element.replaceChildren(...make().filter((part) => part != null));
  }
}

function words({ title, detail, hint }) {
  return [h("b", {}, `${title}.`), detail ? h("span", { class: "why" }, ...prose(detail)) : null, h("span", {}, hint)].filter(Boolean);
}
