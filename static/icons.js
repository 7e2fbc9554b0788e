/** Icons as inline SVG, 24 × 24, drawn with strokes in the text's colour. */

const PATHS = {
  eye: ["M2.5 12S6 5.5 12 5.5 21.5 12 21.5 12 18 18.5 12 18.5 2.5 12 2.5 12Z", "M12 9a3 3 0 1 0 0 6 3 3 0 0 0 0-6Z"],
  play: ["M8 5.5v13l10.5-6.5Z"],
  stop: ["M7 7h10v10H7Z"],
  mic: ["M12 3.5a3 3 0 0 0-3 3v5a3 3 0 0 0 6 0v-5a3 3 0 0 0-3-3Z", "M5.5 11.5a6.5 6.5 0 0 0 13 0", "M12 18v3"],
  micOff: ["M9 6.5a3 3 0 0 1 6 0v4", "M15 12.9A3 3 0 0 1 9 11.5V9", "M5.5 11.5a6.5 6.5 0 0 0 10.6 5", "M18.4 13.2c.1-.5.1-1.1.1-1.7", "M12 18v3", "M4 4l16 16"],
  camera: ["M3.5 8.5h4l1.5-2.5h6l1.5 2.5h4v10h-17Z", "M12 10a3.2 3.2 0 1 0 0 6.4 3.2 3.2 0 0 0 0-6.4Z"],
  cameraOff: ["M9 6h6l1.5 2.5h4v9", "M17 18.500H3.500v-10h4", "M10.200 10.600a3.200 3.200 0 1 0 4.400 4.500", "M4 4l16 16"],
  settings: ["M4 7h9", "M17 7h3", "M4 17h3", "M11 17h9", "M15 5a2 2 0 1 0 0 4 2 2 0 0 0 0-4Z", "M9 15a2 2 0 1 0 0 4 2 2 0 0 0 0-4Z"],
  send: ["M12 19V5.500", "M6 11l6-6 6 6"],
  close: ["M6 6l12 12", "M18 6 6 18"],
  lock: ["M6 11h12v9H6Z", "M8.500 11V8a3.500 3.500 0 0 1 7 0v3"],
  people: ["M9 5.500a3 3 0 1 0 0 6 3 3 0 0 0 0-6Z", "M3.500 19c0-3 2.500-5 5.500-5s5.500 2 5.500 5", "M16 6a2.800 2.800 0 0 1 0 5.300", "M17 14.300c2.100.6 3.500 2.400 3.500 4.700"],
  wave: ["M4 10v4", "M8 7v10", "M12 4v16", "M16 8v8", "M20 10.500v3"],
  alert: ["M12 4 2.800 19.500h18.400Z", "M12 10v4.500", "M12 17v.2"],
  spinner: ["M12 3.500a8.500 8.500 0 1 1-8.500 8.500"],
  speaker: ["M4 9.500h3.500L12 5.500v13l-4.500-4H4Z", "M15.500 9.200a4 4 0 0 1 0 5.600", "M18 6.500a8 8 0 0 1 0 11"],
  speakerOff: ["M4 9.500h3.500L12 5.500v13l-4.500-4H4Z", "M15.500 9.500l5 5", "M20.500 9.500l-5 5"],
  again: ["M19 12a7 7 0 1 1-2.100-5", "M19.500 3.500v4h-4"],
  down: ["M12 5v14", "M6 13l6 6 6-6"],
};

/** @param {keyof typeof PATHS} name */
export function icon(name) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const attributes = { viewBox: "0 0 24 24", class: `icon icon-${name}`, "aria-hidden": "true", focusable: "false" };
  for (const [key, value] of Object.entries(attributes)) svg.setAttribute(key, value);
  for (const d of PATHS[name]) {
    const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
    path.setAttribute("d", d);
    svg.append(path);
  }
  return svg;
}
