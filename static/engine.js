/** What answers, hears and speaks, and whether it is ready: asks `/readyz` until nothing is loading. */

import { SpeechParts } from "./speech.js";

const LOADING_PERIOD_MS = 1000;
const OTHER_PERIOD_MS = 4000;

export class EngineWatch {
  /** @param {() => void} onChange */
  constructor(onChange) {
    this.onChange = onChange;
    this.status = "loading"; // loading | ready | failed
    this.detail = "";
    this.info = null; // {name, model, description, input_modalities, output_modalities}
    this.speech = new SpeechParts();
    this.watching = false;
  }

  async start() {
    this.watching = true;
    const answered = await this.poll();
    this.onChange();
    if (answered && this.status === "ready" && !this.speech.loading) {
      this.watching = false;
      return;
    }
    const loading = this.status === "loading" || this.speech.loading;
    setTimeout(() => this.start(), loading && answered ? LOADING_PERIOD_MS : OTHER_PERIOD_MS);
  }

  async poll() {
    try {
      const response = await fetch("/readyz", { cache: "no-store" });
      const { status, detail, engine, speech } = await response.json();
      if (["loading", "ready", "failed"].includes(status)) this.status = status;
      this.detail = detail ?? "";
      if (engine) this.info = engine;
      this.speech.update(speech);
      return true;
    } catch {
      return false; // the server is away: the connection's state says so
    }
  }

  /** `session.created` names them too. */
  know({ engine, speech }) {
    if (engine) this.info = engine;
    if (speech) this.speech.know(speech);
    if (this.speech.loading && !this.watching) this.start();
    this.onChange();
  }

  get hears() {
    return this.hearsItself || this.speech.ready("recognition");
  }

  get hearsItself() {
    return this.info?.input_modalities?.includes("audio") ?? false;
  }

  /** Whether it notices by itself when somebody speaks. */
  get handsFree() {
    return this.hears && this.speech.ready("activity");
  }

  get speaks() {
    return this.speaksItself || this.speech.ready("voice");
  }

  get speaksItself() {
    return this.info?.output_modalities?.includes("audio") ?? false;
  }

  /** What a person should know about listening and speaking; empty when all is there. */
  get speechNote() {
    const ears = this.hears ? this.speech.handsNote : this.speech.deafNote;
    return [ears, this.speaks ? "" : this.speech.muteNote].filter(Boolean).join(" ");
  }

  /** The chip's text, or null while nothing is known. */
  get label() {
    if (this.status === "failed") return { before: "", name: "Engine failed" };
    if (this.status === "loading" && !this.info) return null;
    const before = this.status === "loading" ? "Loading " : `${this.info.name} · `;
    return { before, name: this.info.model };
  }

  get title() {
    return [this.info?.description, this.detail].filter(Boolean).join(" — ");
  }

  /** One line for the card over the camera; empty when ready. */
  get note() {
    const detail = this.detail ? `: ${this.detail}` : "";
    if (this.status === "loading") return this.info || this.detail ? `Engine still loading${detail}. You can start already.` : "";
    if (this.status === "failed") return `The engine could not be loaded${detail}. Questions will not be answered.`;
    return "";
  }
}
