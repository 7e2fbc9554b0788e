/** Where the time of an answer went: one bar from the question to its first words, or its first sound. */

import { formatMs, h } from "./dom.js";

/** Server segment → [words for a person, colour number]. Unknown ones keep their name. */
const SEGMENTS = {
  "network + page": ["network + page", 1],
  "end of speech": ["end of speech", 5],
  "recognition": ["recognition", 8],
  "waiting": ["waiting", 2],
  "decode": ["frames ready", 2],
  "submit": ["hand-over", 3],
  "first output": ["engine thinking", 4],
  "first text": ["first words", 6],
  "first audio": ["first audio", 9],
  "playback": ["playback", 1],
  "streaming": ["rest of the text", 7],
  "speaking": ["speaking", 7],
};
const SHOWN_MS = 0.5; // shorter ones stay in the bar's description only

const plain = (name) => name.replace(/[_-]+/g, " ").toLowerCase();

/** When the server passed a mark, in ms since the question, or null. */
function mark(timing, name) {
  for (const [key, ms] of Object.entries(timing.marks_ms ?? {})) if (plain(key) === name) return ms;
  return null;
}

/**
 * @param {{segments: {name: string, ms: number}[], total_ms: number, marks_ms: object}} timing
 *   a spoken question's marks begin before 0, when the person fell silent
 * @param {?number} firstText_ms question asked → first text painted, measured by the browser
 * @param {?number} playback_ms from the server to the ear, measured by the browser
 * @returns {?HTMLElement} null when nothing was measured
 */
export function timeBar(timing, firstText_ms, playback_ms) {
  const text_ms = mark(timing, "first text");
  const audio_ms = mark(timing, "first audio");
  const lead_ms = -Math.min(0, ...Object.values(timing.marks_ms ?? {}));
  const end_ms = Math.max(text_ms ?? -Infinity, audio_ms ?? -Infinity);
  const heard = audio_ms != null && audio_ms === end_ms; // the bar ends with a sound, else with words
  const before = [];
  const after = [];
  let at_ms = -lead_ms;
  for (const { name, ms } of timing.segments ?? []) {
    at_ms += ms;
    (end_ms === -Infinity || at_ms <= end_ms + 0.5 ? before : after).push({ name: plain(name), ms });
  }
  const measured = text_ms != null && firstText_ms != null;
  const outside_ms = measured ? Math.max(0, firstText_ms - text_ms) : 0;
  if (heard && playback_ms != null) before.push({ name: "playback", ms: playback_ms });
  else if (!heard && outside_ms > 0) before.unshift({ name: "network + page", ms: outside_ms });
  if (!before.length && !after.length) return null;
  const words = ({ name, ms }) => `${SEGMENTS[name]?.[0] ?? name} ${formatMs(ms)}`;
  const bar = h("div", { class: "bar", role: "img", "aria-label": [...before, ...after].map(words).join(", ") });
  const key = h("div", { class: "key" });
  const begin = lead_ms > 0 ? "the end of your speech" : "sending the question";
  if (text_ms != null) {
    const title = measured
      ? `From ${begin} to the first text on this page, network and page ${formatMs(outside_ms)}`
      : `From ${begin}, measured on the server`;
    key.append(h("strong", { title }, `${formatMs(lead_ms + text_ms + outside_ms)} to the first words`));
  }
  if (audio_ms != null) {
    const title = `From ${begin} until the first sound ${playback_ms == null ? "left the server" : "could be heard here"}`;
    key.append(h("strong", { title }, `${formatMs(lead_ms + audio_ms + (playback_ms ?? 0))} to the first audio`));
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
