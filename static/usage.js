/** What a question cost the model, and how much of that was ready before it was asked. */

import { formatCount, h } from "./dom.js";

const WORDS = {
  tokens: {
    many: (count) => `${formatCount(count)} ${count === 1 ? "token" : "tokens"}`,
    whole: (many) => `The prompt of this answer was ${many}: frames, conversation and question.`,
    did: "read",
  },
  frames: {
    many: (count) => `${formatCount(count)} ${count === 1 ? "frame" : "frames"}`,
    whole: (many) => `This answer was made from ${many}.`,
    did: "looked at",
  },
};

/** `7 frames`, `1,310 tokens`. @param {string} counts what is counted */
export function amount(count, counts) {
  return WORDS[counts]?.many(count) ?? `${formatCount(count)} ${counts}`;
}

/**
 * @param {{prompt_tokens: number, cached_tokens: number}} usage
 * @param {string} counts `tokens` or `frames`
 * @returns {?HTMLElement} null when nothing was counted
 */
export function usageLine({ prompt_tokens: all, cached_tokens: ready }, counts) {
  if (!all) return null;
  const text = long(all, Math.min(ready, all), counts);
  return h("details", { "class": "usage", "data-all": all, "data-ready": ready },
    h("summary", { title: text }, short(all, ready, counts)),
    h("p", {}, text));
}

function short(all, ready, counts) {
  if (!ready) return `${amount(all, counts)} in the prompt`;
  if (ready >= all) return all === 1 ? `The ${amount(1, counts).slice(2)} was ready` : `All ${amount(all, counts)} were ready`;
  return `${formatCount(ready)} of ${amount(all, counts)} ${ready === 1 ? "was" : "were"} ready`;
}

function long(all, ready, counts) {
  const words = WORDS[counts];
  const whole = words?.whole(amount(all, counts)) ?? `The prompt of this answer was ${amount(all, counts)}.`;
  const did = words?.did ?? "read";
  if (!ready) return `${whole} None is known to have been ready before you asked.`;
  if (ready === all) return `${whole} All of it was ready before you asked.`;
  return `${whole} The model had ${did} ${formatCount(ready)} of them before you asked; the other ${formatCount(all - ready)} it ${did} while you waited.`;
}
