/** What answers, and whether it is ready: asks `/readyz` until it is. */

const LOADING_PERIOD_MS = 1000;
const OTHER_PERIOD_MS = 4000;

export class EngineWatch {
  /** @param {() => void} onChange */
  constructor(onChange) {
    this.onChange = onChange;
    this.status = "loading"; // loading | ready | failed
    this.detail = "";
    this.info = null; // {name, model, description, input_modalities, output_modalities}
  }

  async start() {
    const answered = await this.poll();
    this.onChange();
    if (this.status === "ready" && answered) return;
    setTimeout(() => this.start(), this.status === "loading" && answered ? LOADING_PERIOD_MS : OTHER_PERIOD_MS);
  }

  async poll() {
    try {
      const response = await fetch("/readyz", { cache: "no-store" });
      const { status, detail, engine } = await response.json();
      if (["loading", "ready", "failed"].includes(status)) this.status = status;
      this.detail = detail ?? "";
      if (engine) this.info = engine;
      return true;
    } catch {
      return false; // the server is away: the connection's state says so
    }
  }

  /** `session.created` names the engine too. */
  know(info) {
    if (info) this.info = info;
    this.onChange();
  }

  get hears() {
    return this.info?.input_modalities?.includes("audio") ?? false;
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
