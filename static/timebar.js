/** Where the time of an answer went: one bar from the question to its first words. */

import { formatMs, h } from "./dom.js";

/** Server segment → [words for a person, colour number]. Unknown ones keep their name. */
const SEGMENTS = {
  "microphone tail": ["last of your voice", 5],
  "network + page": ["network + page", 1],
  "end of speech": ["end of speech", 5],
  "waiting": ["waiting", 2],
  "decode": ["frames ready", 2],
  "submit": ["hand-over", 3],
  "first output": ["engine thinking", 4],
  "first text": ["first words", 6],
  "first audio": ["first sound", 5],
  "streaming": ["rest of the answer", 7],
};
const SHOWN_MS = 0.5; // shorter ones stay in the bar's description only

const plain = (name) => name.replace(/[_-]+/g, " ").toLowerCase();

/** Server-side time from the question to the first text (ms), or null. */
export function serverFirstText(timing) {
  for (const [name, ms] of Object.entries(timing.marks_ms ?? {})) if (plain(name) === "first text") return ms;
  return null;
}

/**
 * @param {{segments: {name: string, ms: number}[], total_ms: number, marks_ms: object}} timing
 * @param {?number} firstText_ms question sent → first text painted, measured by the browser
 * @param {number} held_ms asked → sent, within `firstText_ms`
 * @returns {?HTMLElement} null when nothing was measured
 */
export function timeBar(timing, firstText_ms, held_ms) {
  const serverFirst_ms = serverFirstText(timing);
  const before = [];
  const after = [];
  const lead_ms = -Math.min(0, ...Object.values(timing.marks_ms ?? {})); // end of speech, before `asked`
  let sum_ms = -lead_ms;
  for (const { name, ms } of timing.segments ?? []) {
    const upToText = serverFirst_ms == null || sum_ms + ms <= serverFirst_ms + 0.5;
    (upToText ? before : after).push({ name: plain(name), ms });
    sum_ms += ms;
  }
  const measured = serverFirst_ms != null && firstText_ms != null;
  const outside_ms = measured ? firstText_ms - held_ms - serverFirst_ms : 0;
  if (outside_ms > 0) before.unshift({ name: "network + page", ms: outside_ms });
  if (measured && held_ms >= 1) before.unshift({ name: "microphone tail", ms: held_ms });
  if (!before.length && !after.length) return null;
  const total_ms = serverFirst_ms == null ? null : lead_ms + (measured ? firstText_ms : serverFirst_ms);
  const words = ({ name, ms }) => `${SEGMENTS[name]?.[0] ?? name} ${formatMs(ms)}`;
  const bar = h("div", { class: "bar", role: "img", "aria-label": [...before, ...after].map(words).join(", ") });
  const key = h("div", { class: "key" });
  if (total_ms != null) {
    const title = measured ? "From sending the question to the first text on this page" : "Measured on the server";
    key.append(h("strong", { title }, `${formatMs(total_ms)} to the first words`));
  }
  for (const segment of before) {
    const colour = `s${SEGMENTS[segment.name]?.[1] ?? 3}`;
    bar.append(h("i", { class: colour, style: `flex-grow:${Math.max(segment.ms, 0.01)}`, title: words(segment) }));
    if (segment.ms >= SHOWN_MS) key.append(entry(segment, colour));
  }
  for (const segment of after) if (segment.ms >= SHOWN_MS) key.append(entry(segment, "s7"));
  return h("div", { class: "time-bar" }, bar, key);
}

function entry({ name, ms }, colour) {
  return h("span", {}, h("i", { class: colour }), `${SEGMENTS[name]?.[0] ?? name} `, h("b", {}, formatMs(ms)));
}
