/** What answers, hears and speaks, and whether it is ready: asks `/readyz` for as long as that may change. */

import { SpeechParts } from "./speech.js";

const PERIOD_MS = { loading: 1000, failed: 3000, ready: 15_000 }; // a ready one is only looked at in a session
const AWAY_PERIOD_MS = 4000;
const ANSWER_LIMIT_MS = 5000;
const SUSPECT_MS = 6000; // after an error of the engine: it may not know yet that it is broken
const TITLES = {
  loading: "The engine is loading",
  restarting: "The engine is restarting",
  failed: "The engine is not available",
};

export class EngineWatch {
  /**
   * @param {{changed: () => void, inSession: () => boolean, ready: (again: boolean) => void}} hooks
   *   `ready`: it was not, and now is; `again`: it had been before
   */
  constructor(hooks) {
    this.hooks = hooks;
    this.status = "loading"; // loading | ready | failed
    this.detail = "";
    this.wasReady = false;
    this.info = null; // the server's EngineDescription
    this.speech = new SpeechParts();
    this.checks = 0;
    this.suspectUntil_ms = 0;
  }

  /** Ask now, and again for as long as there is a reason to. */
  async check() {
    clearTimeout(this.timer);
    const check = ++this.checks;
    const answer = await this.ask();
    if (check !== this.checks) return; // a newer one goes on
    if (answer) this.take(answer);
    this.hooks.changed();
    const period_ms = this.period(answer != null);
    if (period_ms) this.timer = setTimeout(() => this.check(), period_ms);
  }

  /** An error of the engine: look closely for a while. */
  suspect() {
    this.suspectUntil_ms = performance.now() + SUSPECT_MS;
    this.check();
  }

  async ask() {
    try {
      const response = await fetch("/readyz", { cache: "no-store", signal: AbortSignal.timeout(ANSWER_LIMIT_MS) });
      return await response.json();
    } catch {
      return null; // the server is away: the connection's state says so
    }
  }

  take({ status, detail, engine, speech }) {
    const before = this.status;
    if (status in PERIOD_MS) this.status = status;
    this.detail = (detail ?? "").trim();
    if (engine) this.info = engine;
    this.speech.update(speech);
    if (this.status !== "ready") return;
    const again = this.wasReady;
    this.wasReady = true;
    if (before !== "ready") this.hooks.ready(again);
  }

  /** How long until the next question, ms; null: there is none. */
  period(answered) {
    if (!answered) return AWAY_PERIOD_MS;
    if (this.status !== "ready") return PERIOD_MS[this.status];
    if (this.speech.loading || performance.now() < this.suspectUntil_ms) return PERIOD_MS.loading;
    return this.hooks.inSession() ? PERIOD_MS.ready : null;
  }

  /** `session.created` names them too. */
  know({ engine, speech }) {
    if (engine) this.info = engine;
    if (speech) this.speech.know(speech);
    this.check();
    this.hooks.changed();
  }

  get ready() {
    return this.status === "ready";
  }

  /** loading, restarting, ready or failed: what a person calls it. */
  get phase() {
    return this.status === "loading" && this.wasReady ? "restarting" : this.status;
  }

  /** What its usage is counted in: `tokens`, `frames`. */
  get counts() {
    return this.info?.counts ?? "tokens";
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

  /** The chip's text, or null while nothing is known; a narrow page shows `main` only. */
  get label() {
    const model = this.info?.model ?? "";
    switch (this.phase) {
      case "failed": return { before: model && `${model} · `, main: "Not available", after: "" };
      case "restarting": return { before: "", main: "Restarting", after: ` ${model}` };
      case "loading": return this.info ? { before: "", main: "Loading", after: ` ${model}` } : null;
      default: return { before: `${this.info.name} · `, main: model, after: "" };
    }
  }

  /**
   * What a person should know while it is not ready, or null.
   * @returns {?{title: string, detail: string, hint: string}}
   */
  trouble(inSession) {
    const { phase, detail } = this;
    if (phase === "ready" || (phase === "loading" && !this.info && !detail)) return null;
    const later = inSession ? "The session goes on; ask again once it is ready." : "You can start already.";
    const hint = phase === "failed" ? "This page keeps looking, and goes on by itself once it is there." : later;
    return { title: TITLES[phase], detail: /[^.!?…]$/.test(detail) ? `${detail}.` : detail, hint };
  }
}
