/** The model in words: what it is and what it can do, for the engine's popover and the settings. */

import { formatCount, h } from "./dom.js";

/** @param {import("./engine.js").EngineWatch} engine @returns {[string, string][]} term and text */
export function abilities(engine) {
  const { info, speech } = engine;
  const all = [];
  const images = info.images_per_prompt;
  if (info.input_modalities.includes("image")) {
    all.push(["Sees", images ? `up to ${formatCount(images)} ${images === 1 ? "image" : "images"} at a time` : "images"]);
  }
  if (engine.hearsItself) all.push(["Hears", "speech and sounds, itself"]);
  else if (speech.ready("recognition")) all.push(["Hears", "what you say, as recognised text"]);
  if (engine.speaksItself) all.push(["Speaks", "with its own voice"]);
  else if (speech.ready("voice")) all.push(["Speaks", "with the server's voice"]);
  if (info.context_tokens) all.push(["Context", `${formatCount(info.context_tokens)} tokens, answer included`]);
  return all;
}

/** A list of terms and texts; a third entry is a remark. @param {[string, string, string?][]} rows */
export function terms(rows) {
  return h("dl", { class: "facts" }, ...rows.map(([term, text, remark]) =>
    h("div", {}, h("dt", {}, term), h("dd", {}, text, remark ? h("small", {}, remark) : null))));
}
