/** Sightline's live page: puts the parts together. Mounted by the Gradio component in webapp/ui.py. */

import { Devices, NoDevices } from "./devices.js";
import { h, setText, show } from "./dom.js";
import { EngineWatch } from "./engine.js";
import { FrameLog } from "./frames.js";
import { icon } from "./icons.js";
import { Link } from "./link.js";
import { Sidebar } from "./sidebar.js";
import { Machine, card, help } from "./state.js";
import { Transcript } from "./transcript.js";
import { build } from "./view.js";
import { Voice } from "./voice.js";

const ALWAYS = { timestamps: true, frame_events: true, live_audio: true }; // fields of session.config
const LEVEL_PERIOD_MS = 80;
const STRIP_PERIOD_MS = 250;
const RATES_PERIOD_MS = 1000;

/**
 * @param {HTMLElement} root the `.sightline` element
 * @param {{settings: () => object, watchSettings: (callback: () => void) => void, settingsId: string}} host
 */
export function mount(root, host) {
  if (root.dataset.mounted) return;
  root.dataset.mounted = "true";
  new App(root, host);
}

class App {
  constructor(root, host) {
    this.root = root;
    this.host = host;
    const view = (this.view = build());
    root.replaceChildren(...view.parts);
    this.missing = { camera: null, microphone: null };
    this.muted = false;
    this.rtt_ms = null;
    this.frames = new FrameLog();
    this.machine = new Machine(() => this.render());
    this.transcript = new Transcript(view.transcript, this.frames, (open) => show(view.cancel, open));
    this.devices = new Devices({ changed: () => this.listCameras(), cameraEnded: () => this.cameraEnded() });
    this.voice = new Voice(view, { track: () => this.devices.audio, live: () => this.live, muted: () => this.muted, ask: (at) => this.ask("", at) });
    this.engine = new EngineWatch(() => this.render());
    this.link = new Link({
      media: () => ({ video: this.devices.video, audio: this.devices.audio }),
      config: () => ({ ...ALWAYS, ...host.settings() }),
      state: (state, detail) => this.linkState(state, detail),
      created: (event, back) => this.created(event, back),
      event: (event) => this.receive(event),
      speaker: (stream) => this.hear(stream),
      rtt: (ms) => this.showRtt(ms),
    });
    this.bind();
    this.render();
    this.engine.start();
  }

  get live() {
    return this.machine.state === "live";
  }

  /** Room for a keyboard: focusing the question box does not cover the page with one. */
  get wide() {
    return matchMedia("(min-width: 821px)").matches;
  }

  bind() {
    const { view } = this;
    view.start.addEventListener("click", () => this.start());
    view.stop.addEventListener("click", () => this.stop());
    view.retry.addEventListener("click", () => this.link.retryNow());
    view.mute.addEventListener("click", () => this.toggleMute());
    new Sidebar(this.host.settingsId, this.root, view.settings);
    view.cancel.addEventListener("click", () => this.cancel());
    view.camera.addEventListener("change", () => this.selectCamera(view.camera.value));
    view.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.askTyped(view.question.value);
    });
    view.suggestions.addEventListener("click", ({ target }) => {
      const text = target.closest("[data-question]")?.dataset.question;
      if (!text) return;
      view.question.value = text;
      if (this.live) this.askTyped(text);
      else view.question.focus();
    });
    window.addEventListener("keydown", (event) => event.key === "Escape" && this.cancel());
    window.addEventListener("pagehide", () => this.machine.active && this.stop());
    this.host.watchSettings(() => this.live && this.link.send({ type: "session.update", session: this.host.settings() }));
    window.visualViewport?.addEventListener("resize", () => this.fitKeyboard());
    setInterval(() => this.live && !document.hidden && this.drawLevel(), LEVEL_PERIOD_MS);
    setInterval(() => this.live && !document.hidden && this.frames.draw(view.spark), STRIP_PERIOD_MS);
    setInterval(() => this.live && this.showRates(), RATES_PERIOD_MS);
  }

  // --- starting and stopping -----------------------------------------------------------

  async start() {
    this.pressed_ms = performance.now();
    delete this.root.dataset.connectMs;
    if (!window.isSecureContext || !navigator.mediaDevices) {
      this.machine.to("failed", { code: "insecure" });
      return;
    }
    this.machine.to("asking-permission");
    try {
      this.missing = await this.devices.open();
    } catch (error) {
      if (this.machine.state !== "asking-permission") return;
      this.machine.to(error instanceof NoDevices ? error.code : "failed", { message: error.message });
      return;
    }
    if (this.machine.state !== "asking-permission") {
      this.devices.close(); // stopped while the browser was asking
      return;
    }
    this.showDevices();
    this.machine.to("connecting");
    this.link.start();
  }

  stop() {
    this.link.close();
    this.release();
    this.transcript.cut("closed");
    this.machine.to("idle");
    this.view.start.focus({ preventScroll: true });
  }

  release() {
    this.devices.close();
    this.view.preview.srcObject = null;
    this.view.speaker.srcObject = null;
  }

  linkState(state, detail) {
    if (state === "lost") this.transcript.cut("lost");
    if (state === "failed") this.release();
    if (state === this.machine.state) {
      this.machine.detail = detail;
      this.render();
    } else this.machine.to(state, detail);
  }

  created(event, back) {
    if (!back) this.root.dataset.connectMs = (performance.now() - this.pressed_ms).toFixed(1);
    this.created_ms = performance.now();
    this.frames.reset();
    this.engine.know(event.engine);
    this.transcript.newSession(back ? "Reconnected — the model starts fresh" : "New session — the model starts fresh");
    this.machine.to("live");
    this.listCameras();
    this.voice.apply(this.engine.hears, this.missing.microphone == null);
    if (!back && this.wide) this.view.question.focus({ preventScroll: true });
  }

  // --- devices -------------------------------------------------------------------------

  showDevices() {
    const { video } = this.devices;
    this.view.preview.srcObject = video ? new MediaStream([video]) : null;
    this.muted = false;
    this.applyMute();
    this.listCameras();
  }

  async listCameras() {
    const cameras = await this.devices.cameras();
    const { camera, cameraBox } = this.view;
    camera.replaceChildren(...cameras.map(({ id, label }) => h("option", { value: id, selected: id === this.devices.cameraId }, label)));
    show(cameraBox, this.live && cameras.length > 0);
    if (this.live && this.missing.camera && cameras.length) camera.prepend(h("option", { value: "", selected: true }, "Choose a camera"));
  }

  async selectCamera(id) {
    if (!id) return;
    try {
      await this.devices.select(id);
    } catch {
      this.notice("camera_busy", "That camera could not be opened. Check that no other program uses it.");
    }
    this.missing.camera = this.devices.video ? null : "busy";
    this.view.preview.srcObject = this.devices.video && new MediaStream([this.devices.video]);
    await this.link.replaceVideo(this.devices.video);
    await this.listCameras();
    this.render();
  }

  cameraEnded() {
    this.missing.camera = "ended";
    this.listCameras();
    this.render();
  }

  toggleMute() {
    this.muted = !this.muted;
    this.applyMute();
  }

  applyMute() {
    this.voice.applyTrack();
    const { mute, muteLabel, muteIcon } = this.view;
    mute.setAttribute("aria-pressed", String(this.muted));
    setText(muteLabel, this.muted ? "Muted" : "Mute");
    muteIcon.replaceChildren(icon(this.muted ? "micOff" : "mic"));
  }

  drawLevel() {
    this.view.level.style.transform = `scaleX(${this.devices.level().toFixed(3)})`;
  }

  async hear(stream) {
    this.view.speaker.srcObject = stream;
    try {
      await this.view.speaker.play();
    } catch (error) {
      if (error.name === "NotAllowedError") this.notice("sound_blocked", "The browser blocks sound on this page. Allow it beside the address.");
    }
  }

  // --- asking --------------------------------------------------------------------------

  askTyped(value) {
    const text = value.trim();
    if (!text || !this.ask(text, performance.now())) return;
    this.view.question.value = "";
    if (this.wide) this.view.question.focus({ preventScroll: true });
  }

  /** Send a question. @param {number} asked_ms performance.now() when the person had asked */
  ask(text, asked_ms) {
    if (!this.live || !this.link.send({ type: "video.query", text })) return false;
    this.view.empty.remove();
    this.transcript.ask(text, { asked_ms, clock_s: (asked_ms - this.created_ms) / 1000, spoken: !text });
    return true;
  }

  cancel() {
    if (!this.view.cancel.hidden) this.link.send({ type: "response.cancel" });
  }

  receive(event) {
    if (event.type === "video.frame.decision") this.frames.add(event);
    else if (!this.transcript.handle(event) && event.type === "error") {
      this.notice(event.code, help(event.code, event.message));
    }
  }

  /** A small message that stays until it is dismissed; one per code. */
  notice(code, text) {
    this.view.notices.querySelector(`[data-code="${CSS.escape(code)}"]`)?.remove();
    const close = h("button", { type: "button", "aria-label": "Dismiss", onclick: () => element.remove() }, icon("close"));
    const element = h("div", { class: "notice", "data-code": code }, icon("alert"), h("span", {}, text), close);
    this.view.notices.append(element);
  }

  // --- showing -------------------------------------------------------------------------

  render() {
    const { view, root } = this;
    const { state, detail } = this.machine;
    root.dataset.state = state;
    root.dataset.engine = this.engine.status;
    this.renderCard(state, detail);
    this.renderChips(state);
    const inSession = state === "live" || state === "lost";
    show(view.controls, this.machine.active);
    show(view.live, inSession && this.frames.totals != null);
    show(view.mute, inSession && this.devices.audio != null);
    show(view.cameraBox, inSession && view.camera.options.length > 0);
    setText(view.stopLabel, inSession ? "Stop" : "Cancel");
    view.ask.disabled = state !== "live";
    view.question.placeholder = { live: "Ask about what the camera sees", lost: "Reconnecting" }[state] ?? "Press Start, then ask";
    this.voice.render(inSession, this.engine.hears, this.missing.microphone);
    const why = state === "live" && this.missing.camera;
    show(view.nocam, Boolean(why));
    if (why) setText(view.nocam.lastChild, "No camera: connect one, or check that no other program uses it.");
    if (state !== "live") {
      this.rtt_ms = null;
      for (const chip of [view.video, view.kept]) show(chip, false);
    }
  }

  renderCard(state, detail) {
    const { view } = this;
    const content = card(state, detail);
    show(view.card, content != null);
    if (!content) return;
    if (view.cardIcon.dataset.icon !== content.icon) {
      view.cardIcon.dataset.icon = content.icon;
      view.cardIcon.replaceChildren(icon(content.icon));
    }
    setText(view.cardTitle, content.title);
    setText(view.cardText, content.text);
    show(view.start, content.action != null);
    if (content.action) setText(view.startLabel, content.action);
    show(view.retry, content.retry != null && detail.retry_s > 0);
    if (content.retry) setText(view.retry, content.retry);
    show(view.cardEngine, this.engine.status !== "ready" && this.engine.note !== "");
    setText(view.cardEngine, this.engine.note);
  }

  renderChips(state) {
    const { view, engine } = this;
    const words = {
      "live": "Connected", "connecting": "Connecting", "lost": "Reconnecting", "asking-permission": "Needs permission",
      "denied": "Camera blocked", "no-camera": "No camera", "full": "Server full", "failed": "Not connected",
    };
    const rtt = state === "live" && this.rtt_ms != null ? ` · ${Math.max(1, Math.round(this.rtt_ms))} ms` : "";
    view.connectionText.replaceChildren(h("b", {}, words[state] ?? "Not connected"), h("span", { class: "rtt" }, rtt));
    const label = engine.label;
    show(view.engine, label != null);
    if (label) view.engineText.replaceChildren(h("span", { class: "before" }, label.before), h("b", {}, label.name));
    view.engine.title = engine.title;
  }

  showRtt(ms) {
    this.rtt_ms = this.rtt_ms == null ? ms : 0.7 * this.rtt_ms + 0.3 * ms;
    if (this.live) this.renderChips("live");
  }

  async showRates() {
    const { view, frames } = this;
    const rates = frames.rates();
    show(view.kept, rates != null);
    show(view.live, frames.totals != null);
    if (rates) {
      view.kept.replaceChildren("kept ", h("b", {}, rates.kept.toFixed(1)), "/s · dropped ", h("b", {}, rates.dropped.toFixed(1)), "/s");
      setText(view.totals, `${frames.totals.kept} kept · ${frames.totals.dropped} dropped`);
    }
    const stats = await this.link.videoStats();
    show(view.video, this.live && stats != null);
    if (stats) view.video.replaceChildren(h("b", {}, String(Math.round(stats.fps))), ` fps · ${stats.width}×${stats.height}`);
  }

  /** On-screen keyboards cover a fixed page: use what is left of it. */
  fitKeyboard() {
    const { height, offsetTop, scale } = window.visualViewport;
    const covered = scale === 1 && window.innerHeight - height > 60;
    this.root.style.height = covered ? `${height}px` : "";
    this.root.style.top = covered ? `${offsetTop}px` : "";
    this.root.classList.toggle("keyboard", covered);
  }
}
