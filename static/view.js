/** The page's elements, built once. Behaviour is in app.js. */

import { h } from "./dom.js";
import { icon } from "./icons.js";

export const SUGGESTIONS = ["What do you see?", "What am I holding?", "What does it say?", "What changed?"];

const button = (action, classes, ...children) =>
  h("button", { type: "button", "data-action": action, class: classes }, ...children);

/** @returns {Object<string, HTMLElement>} every element the app talks to */
export function build() {
  const v = {};
  header(v);
  camera(v);
  controls(v);
  strip(v);
  talk(v);
  v.speaker = h("audio", { "data-role": "speaker", autoplay: true });
  v.left = h("section", { class: "panel stage", "aria-label": "Camera" }, v.cam, v.controls, v.voiceNote, v.live);
  v.right = h("section", { class: "panel talk", "aria-label": "Conversation" }, v.transcript, v.notices, v.engineBar, v.form);
  v.parts = [v.header, h("div", { class: "columns" }, v.left, v.right), v.speaker];
  return v;
}

function header(v) {
  v.connectionText = h("span", { class: "chip-text" }, "Not connected");
  v.connection = h("span", { class: "chip", "data-chip": "connection", role: "status" }, h("i", { class: "dot" }), v.connectionText);
  v.engineText = h("span", { class: "chip-text" });
  v.engine = h("button", { type: "button", class: "chip", "data-chip": "engine", hidden: true }, h("i", { class: "dot" }), v.engineText);
  v.engineDetails = h("div", { id: "sightline-engine", class: "popover", role: "dialog", "aria-label": "Engine", tabindex: "-1", hidden: true });
  v.settings = button("settings", "chip", icon("settings"), h("span", { class: "label" }, "Settings"));
  v.settings.setAttribute("aria-label", "Settings");
  v.header = h("header", {}, h("h1", {}, icon("eye"), h("span", {}, "Sightline")), v.connection, v.engine, v.engineDetails, v.settings);
}

function camera(v) {
  v.preview = h("video", { "data-role": "preview", autoplay: true, muted: true, playsinline: true, "aria-label": "Your camera" });
  v.preview.muted = true;
  v.video = h("span", { class: "chip", "data-chip": "video", hidden: true });
  v.kept = h("span", { class: "chip", "data-chip": "kept", hidden: true });
  v.hearing = h("span", { "class": "chip", "data-chip": "hearing", hidden: true }, icon("mic"), "hearing you");
  v.cardIcon = h("div", { class: "card-icon" });
  v.cardTitle = h("h2");
  v.cardText = h("p");
  v.cardEngine = h("div", { class: "engine-note", hidden: true });
  v.startLabel = h("span", {}, "Start");
  v.start = button("start", "go big", icon("play"), v.startLabel);
  v.retry = button("retry", "big", "Try now");
  v.card = h("div", { class: "card", role: "status" }, v.cardIcon, v.cardTitle, v.cardText, v.cardEngine, h("div", { class: "card-actions" }, v.start, v.retry));
  v.nocam = h("p", { class: "nocam", hidden: true }, icon("cameraOff"), h("span"));
  v.cam = h("div", { class: "cam" }, v.preview, v.nocam, h("div", { class: "over" }, v.hearing, v.video, v.kept), v.card);
}

function controls(v) {
  v.stopLabel = h("span", { class: "label" }, "Stop");
  v.stop = button("stop", "stop", icon("stop"), v.stopLabel);
  v.muteLabel = h("span", { class: "label" }, "Mute");
  v.muteIcon = h("span", { class: "swap" }, icon("mic"));
  v.level = h("i", { class: "level" });
  v.mute = button("mute", "", v.muteIcon, v.muteLabel, h("span", { class: "meter", "aria-hidden": "true" }, v.level));
  v.voiceIcon = h("span", { class: "swap" }, icon("speaker"));
  v.voiceLabel = h("span", { class: "label" }, "Voice");
  v.voice = button("voice", "", v.voiceIcon, v.voiceLabel);
  v.sound = button("sound", "go", icon("speaker"), "Turn on sound");
  v.sound.hidden = true;
  const mode = (name) => h("input", { type: "radio", name: "sightline-mode", value: name, "data-action": name });
  v.handsFree = mode("hands-free");
  v.pushToTalk = mode("push-to-talk");
  v.modes = h("fieldset", { class: "modes", disabled: true }, h("legend", { class: "sr" }, "How you speak"),
    h("label", {}, v.handsFree, h("span", {}, "Hands-free")),
    h("label", { title: "Hold the button or Space while you speak" }, v.pushToTalk, h("span", {}, "Push to talk")));
  v.camera = h("select", { "data-field": "camera", "aria-label": "Camera" });
  v.cameraBox = h("label", { class: "select" }, icon("camera"), v.camera);
  v.controls = h("div", { class: "controls" }, v.stop, v.mute, v.voice, v.cameraBox, v.modes, v.sound);
  v.voiceNote = h("p", { class: "voice-note", hidden: true });
}

function strip(v) {
  v.spark = h("canvas", { class: "spark", role: "img", "aria-label": "Frames of the last 30 seconds" });
  v.totals = h("b");
  v.figures = h("div", { class: "figures", hidden: true });
  v.live = h("div", { class: "live", hidden: true },
    h("div", { class: "row" }, h("span", {}, "Frames, last 30 s"), v.totals),
    v.spark,
    h("p", { class: "legend" }, h("i", { class: "kept" }), "kept", h("i"), "dropped", h("span", {}, "height: how much changed")),
    v.figures);
}

function talk(v) {
  v.suggestions = h("div", { class: "suggestions" }, ...SUGGESTIONS.map((text) =>
    h("button", { type: "button", class: "suggestion", "data-question": text }, text)));
  v.how = h("p");
  v.empty = h("div", { class: "empty" }, v.how, v.suggestions);
  v.transcript = h("div", { class: "transcript", "data-role": "transcript", role: "log", "aria-live": "polite", "aria-label": "Transcript", tabindex: "0" }, v.empty);
  v.notices = h("div", { class: "notices", role: "status" });
  v.engineBarIcon = h("span", { class: "swap" });
  v.engineBarTitle = h("b", { role: "status" });
  v.engineBarText = h("span", { class: "why" });
  v.engineBar = h("div", { class: "engine-bar", "data-role": "engine-bar", hidden: true }, v.engineBarIcon, h("p", {}, v.engineBarTitle, " ", v.engineBarText));
  v.question = h("input", { "data-field": "question", type: "text", placeholder: "Press Start, then ask", "aria-label": "Your question", autocomplete: "off", enterkeyhint: "send", maxlength: "2000" });
  v.ask = h("button", { type: "submit", class: "go", "data-action": "ask", disabled: true }, icon("send"), h("span", { class: "label" }, "Ask"));
  v.cancel = button("cancel", "", icon("stop"), h("span", { class: "label" }, "Stop answer"));
  v.cancel.hidden = true;
  v.talkButton = button("talk", "", icon("mic"), h("span", { class: "label" }, "Hold to talk"));
  v.talkButton.hidden = true;
  v.form = h("form", { class: "ask" }, v.talkButton, v.question, v.cancel, v.ask);
}
