/** The few DOM helpers of the page. Text always goes in as text nodes, never as markup. */

/**
 * Make an element. `on…` props are listeners, booleans toggle the attribute, `null` is left out.
 * @param {string} tag
 * @param {Object<string, any>} [props]
 * @param {...(Node|string|null)} children
 */
export function h(tag, props = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value != null) element.setAttribute(name, String(value));
  }
  element.append(...children.filter((child) => child != null));
  return element;
}

/** Set text only when it differs, so that live regions and selections are left alone. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Show or hide an element, by its `hidden`. */
export function show(element, shown) {
  if (element.hidden === shown) element.hidden = !shown;
}

/** A duration for people. @param {number} ms */
export function formatMs(ms) {
  if (ms >= 1000) return `${(ms / 1000).toFixed(ms < 10_000 ? 2 : 1)} s`;
  return `${ms < 10 ? ms.toFixed(1) : Math.round(ms)} ms`;
}

/** Seconds as a clock, `01:05`. @param {number} seconds */
export function formatClock(seconds) {
  const whole = Math.max(0, Math.floor(seconds));
  return `${String(Math.floor(whole / 60)).padStart(2, "0")}:${String(whole % 60).padStart(2, "0")}`;
}

/** A number of things for people, `32,768`. @param {number} count */
export function formatCount(count) {
  return count.toLocaleString("en");
}

// What is to be typed or looked up: in backticks, flags, addresses, paths, names such as Qwen/Qwen2.5-VL.
const CODE = /`[^`]+`|(?<![\w-])--[a-z][\w-]*|https?:\/\/[^\s,;)]+|(?<![\w.])[~.]{0,2}\/[\w.~-][\w./~-]*|[\w.-]*[A-Z0-9_][\w.-]*\/[\w./-]+/g;

/** A message as nodes, with what is code in it as code. @returns {(string|Node)[]} */
export function prose(text) {
  const parts = [];
  let end = 0;
  for (const { 0: found, index } of text.matchAll(CODE)) {
    const code = found.replace(/[.,:;]+$/, ""); // the sentence's, not the code's
    parts.push(text.slice(end, index), h("code", {}, code.replaceAll("`", "")));
    end = index + code.length;
  }
  return [...parts, text.slice(end)].filter((part) => part !== "");
}
