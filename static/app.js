/** Sightline's live page: puts the parts together. Mounted by the Gradio component in webapp/ui.py. */

import { Devices, NoDevices } from "./devices.js";
import { h, setText, show } from "./dom.js";
import { EngineWatch } from "./engine.js";
import { EngineView } from "./engineview.js";
import { Figures } from "./figures.js";
import { FrameLog } from "./frames.js";
import { icon } from "./icons.js";
import { Link } from "./link.js";
import { Notices } from "./notices.js";
import { Sidebar } from "./sidebar.js";
import { Speaker } from "./speaker.js";
import { Machine, card, help } from "./state.js";
import { Transcript } from "./transcript.js";
import { build } from "./view.js";
import { Voice } from "./voice.js";

const ALWAYS = { timestamps: true, frame_events: true }; // fields of session.config
const LEVEL_PERIOD_MS = 80;
const STRIP_PERIOD_MS = 250;
const RATES_PERIOD_MS = 1000;
const PLAYBACK_PERIOD_MS = 1000;
const ABOUT = "Answers appear here, with the frames they were based on and the time they took.";

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
    this.language = host.settings().language; // as the server knows it
    this.rtt_ms = null;
    this.playback_ms = null;
    this.frames = new FrameLog();
    this.figures = new Figures(view.figures);
    this.notices = new Notices(view.notices);
    this.machine = new Machine(() => this.render());
    this.transcript = new Transcript(view.transcript, this.frames, {
      open: (open) => show(view.cancel, open),
      hearing: (hearing) => show(view.hearing, hearing),
      asked: () => this.when(performance.now() - (this.rtt_ms ?? 0) / 2),
      speaks: () => this.speaks,
      playback_ms: () => this.playback_ms,
      counts: () => this.engine.counts,
      ask: (question) => this.askTyped(question),
    });
    this.devices = new Devices({ changed: () => this.listCameras(), cameraEnded: () => this.cameraEnded() });
    this.voice = new Voice(view, {
      track: () => this.devices.audio,
      live: () => this.live,
      muted: () => this.muted,
      send: (event) => this.link.send(event),
      detect: (detection) => this.detect(detection),
      changed: () => this.render(),
    });
    this.speaker = new Speaker(view, host.settings(), () => {
      this.update({ modalities: this.speaker.modalities(host.settings()) });
      this.render();
    });
    this.engine = new EngineWatch({
      changed: () => {
        this.allowVoice();
        this.render();
      },
      inSession: () => this.live,
      ready: (again) => this.engineReady(again),
    });
    this.engineView = new EngineView(view, this.engine, this.figures);
    this.link = new Link({
      media: () => ({ video: this.devices.video, audio: this.devices.audio, heard: this.voice.detection != null }),
      config: () => ({ ...ALWAYS, ...this.settings(), turn_detection: this.voice.begin() }),
      state: (state, detail) => this.linkState(state, detail),
      created: (event, back) => this.created(event, back),
      event: (event) => this.receive(event),
      speaker: (stream) => this.speaker.use(stream),
      rtt: (ms) => this.showRtt(ms),
    });
    this.bind();
    this.render();
    this.engine.check();
  }

  get live() {
    return this.machine.state === "live";
  }

  /** Whether answers are spoken. */
  get speaks() {
    return this.engine.speaks && this.speaker.on;
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
      if (this.askTyped(view.question.value)) view.question.value = "";
    });
    view.suggestions.addEventListener("click", ({ target }) => {
      const text = target.closest("[data-question]")?.dataset.question;
      if (!text) return;
      if (this.live) this.askTyped(text);
      else {
        view.question.value = text;
        view.question.focus();
      }
    });
    window.addEventListener("keydown", (event) => event.key === "Escape" && this.cancel());
    window.addEventListener("pagehide", () => this.machine.active && this.stop());
    this.host.watchSettings(() => this.settingsChanged());
    window.visualViewport?.addEventListener("resize", () => this.fitKeyboard());
    setInterval(() => this.live && !document.hidden && this.drawLevel(), LEVEL_PERIOD_MS);
    setInterval(() => this.live && !document.hidden && this.frames.draw(view.spark), STRIP_PERIOD_MS);
    setInterval(() => this.live && this.showRates(), RATES_PERIOD_MS);
    setInterval(() => this.live && this.reportPlayback(), PLAYBACK_PERIOD_MS);
  }

  settings() {
    const settings = this.host.settings();
    return { ...settings, modalities: this.speaker.modalities(settings) };
  }

  settingsChanged() {
    const { language } = this.host.settings();
    if (language !== this.language) this.transcript.forgetSpeech(); // it makes new ears, too
    this.language = language;
    this.speaker.settingsChanged(this.host.settings());
    this.update(this.settings());
    this.render();
  }

  update(session) {
    if (this.live) this.link.send({ type: "session.update", session });
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
    this.speaker.use(null);
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
    this.figures.reset();
    this.transcript.newSession(back ? "Reconnected — the model starts fresh" : "New session — the model starts fresh");
    this.machine.to("live");
    this.engine.know(event);
    this.listCameras();
    if (!back && this.wide && !this.voice.pushToTalk) this.view.question.focus({ preventScroll: true });
  }

  // --- devices -------------------------------------------------------------------------

  showDevices() {
    const { video } = this.devices;
    this.view.preview.srcObject = video ? new MediaStream([video]) : null;
    this.muted = false;
    this.applyMute();
    this.allowVoice();
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
      this.notices.add("camera_busy", "That camera could not be opened. Check that no other program uses it.");
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
    this.voice.sync();
    const { mute, muteLabel, muteIcon } = this.view;
    mute.setAttribute("aria-pressed", String(this.muted));
    setText(muteLabel, this.muted ? "Muted" : "Mute");
    muteIcon.replaceChildren(icon(this.muted ? "micOff" : "mic"));
  }

  drawLevel() {
    this.view.level.style.transform = `scaleX(${this.devices.level().toFixed(3)})`;
  }

  // --- speaking and listening ----------------------------------------------------------

  allowVoice() {
    const microphone = this.missing.microphone == null;
    this.voice.allow({ hears: microphone && this.engine.hears, handsFree: this.engine.handsFree });
  }

  /** Tell the server how to listen; it makes new ears for it. */
  detect(detection) {
    this.update({ turn_detection: detection });
    this.link.hear(detection && this.devices.audio);
    this.transcript.forgetSpeech();
  }

  /** Tell the server how late it is heard: what a person heard of an answer depends on it. */
  async reportPlayback() {
    const delay_ms = await this.link.playbackDelay(this.rtt_ms);
    if (delay_ms == null) return;
    this.playback_ms = delay_ms;
    this.root.dataset.playbackMs = delay_ms.toFixed(1);
    this.link.send({ type: "output_audio.playback", delay_ms: Math.min(10_000, Math.max(0, delay_ms)) });
  }

  // --- asking --------------------------------------------------------------------------

  /** @returns {boolean} whether it was asked; otherwise it is the caller's to keep */
  askTyped(value) {
    const text = value.trim();
    if (!text || !this.ask(text)) return false;
    if (this.wide) this.view.question.focus({ preventScroll: true });
    return true;
  }

  ask(text) {
    if (!this.live || !this.link.send({ type: "video.query", text })) return false;
    this.transcript.ask(text, this.when(performance.now()));
    return true;
  }

  /** @param {number} asked_ms on performance.now() */
  when(asked_ms) {
    return { asked_ms, clock_s: (asked_ms - this.created_ms) / 1000 };
  }

  cancel() {
    if (!this.view.cancel.hidden) this.link.send({ type: "response.cancel" });
  }

  receive(event) {
    if (event.type === "video.frame.decision") {
      this.frames.add(event);
      return;
    }
    if (event.type === "prefill.stats") {
      this.figures.take(event, this.engine.counts);
      this.engineView.render(this.live);
      return;
    }
    if (event.type === "error" && event.code?.startsWith("engine_")) this.engine.suspect();
    if (event.type === "input_audio_buffer.speech_started") this.notices.dismiss("no_speech");
    if (event.transcript === "" && this.voice.pushToTalk) this.notices.add("no_speech", help("no_speech"));
    if (!this.transcript.handle(event) && event.type === "error") {
      this.notices.add(event.code, help(event.code, event.message));
    }
  }

  /** It was loading, restarting or away; who has asked meanwhile is told. */
  engineReady(again) {
    if (!this.live || !this.transcript.turns.length) return;
    this.transcript.remark("engine", () => (again ? "The engine is ready again." : "The engine is ready."));
  }

  // --- showing -------------------------------------------------------------------------

  render() {
    const { view, root } = this;
    const { state, detail } = this.machine;
    root.dataset.state = state;
    root.dataset.engine = this.engine.status;
    root.dataset.hears = String(this.engine.hears);
    root.dataset.speaks = String(this.speaks);
    this.renderCard(state, detail);
    this.renderConnection(state);
    const inSession = state === "live" || state === "lost";
    this.engineView.render(inSession);
    this.transcript.setAnswering(state === "live" && this.engine.ready);
    show(view.controls, this.machine.active);
    show(view.live, inSession && this.frames.totals != null);
    show(view.mute, inSession && this.devices.audio != null);
    show(view.cameraBox, inSession && view.camera.options.length > 0);
    setText(view.stopLabel, inSession ? "Stop" : "Cancel");
    view.ask.disabled = state !== "live";
    view.question.placeholder = { live: this.invitation, lost: "Reconnecting" }[state] ?? "Press Start, then ask";
    setText(view.how, `${state === "live" ? this.invitation : "Ask about what the camera sees"}. ${ABOUT}`);
    this.voice.render(inSession, this.missing.microphone, this.engine.speechNote);
    this.speaker.render(inSession, this.engine);
    const why = state === "live" && this.missing.camera;
    show(view.nocam, Boolean(why));
    if (why) setText(view.nocam.lastChild, "No camera: connect one, or check that no other program uses it.");
    if (state !== "live") {
      this.rtt_ms = this.playback_ms = null;
      for (const chip of [view.video, view.kept, view.hearing]) show(chip, false);
    }
  }

  get invitation() {
    if (this.voice.handsFree) return "Just ask aloud, or type";
    if (this.voice.pushToTalk) return "Hold to talk, or type";
    return "Ask about what the camera sees";
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
  }

  renderConnection(state) {
    const { view } = this;
    const words = {
      "live": "Connected", "connecting": "Connecting", "lost": "Reconnecting", "asking-permission": "Needs permission",
      "denied": "Camera blocked", "no-camera": "No camera", "full": "Server full", "failed": "Not connected",
    };
    const rtt = state === "live" && this.rtt_ms != null ? ` · ${Math.max(1, Math.round(this.rtt_ms))} ms` : "";
    view.connectionText.replaceChildren(h("b", {}, words[state] ?? "Not connected"), h("span", { class: "rtt" }, rtt));
  }

  showRtt(ms) {
    this.rtt_ms = this.rtt_ms == null ? ms : 0.7 * this.rtt_ms + 0.3 * ms;
    if (this.live) this.renderConnection("live");
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
