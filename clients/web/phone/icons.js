import { h } from "./dom.js";

/** Drawn in a square of 24, with lines. */
const shapes = {
  phone: "M6 3h3l2 5-2.5 1.5a12 12 0 0 0 6 6L16 13l5 2v3a3 3 0 0 1-3 3A15 15 0 0 1 3 6a3 3 0 0 1 3-3z",
  hangUp: "M3 15c0-6 18-6 18 0v1.5l-4.5 1-1-3.5c-2-.8-5-.8-7 0l-1 3.5-4.5-1z",
  microphone: "M12 3a3 3 0 0 1 3 3v5a3 3 0 0 1-6 0V6a3 3 0 0 1 3-3zM5 11a7 7 0 0 0 14 0M12 18v3",
  microphoneOff:
    "M15 10V6a3 3 0 0 0-6 0v5a3 3 0 0 0 4 2.8M5 11a7 7 0 0 0 11 5.7M19 11a7 7 0 0 1-.8 3.2M12 18v3M3 3l18 18",
  camera: "M4 6h10a2 2 0 0 1 2 2v8a2 2 0 0 1-2 2H4a2 2 0 0 1-2-2V8a2 2 0 0 1 2-2zM16 11l6-4v10l-6-4",
  cameraOff: "M9 6h5a2 2 0 0 1 2 2v5M16 16.5A2 2 0 0 1 14 18H4a2 2 0 0 1-2-2V8a2 2 0 0 1 2-2M17 11l5-4v10M3 3l18 18",
  hold: "M9 5v14M15 5v14",
  resume: "M8 5l11 7-11 7z",
  transfer: "M4 12h15M13 6l6 6-6 6",
  here: "M12 4v12M6 10l6 6 6-6M5 20h14",
  sliders: "M4 7h9M19 7h1M4 17h2M12 17h8M16 4v6M9 14v6",
  missed: "M4 5l8 8 8-8M20 5v7M20 5h-7",
  placed: "M6 18L18 6M9 6h9v9",
  received: "M18 6L6 18M15 18H6V9",
  bell: "M6 16V11a6 6 0 0 1 12 0v5l2 2H4zM10 21h4",
  out: "M14 4H6v16h8M10 12h11M17 8l4 4-4 4",
  close: "M5 5l14 14M19 5L5 19",
};

/** An icon beside a text. Screen readers skip it. */
export const icon = (name) =>
  h("svg", { class: "icon", viewBox: "0 0 24 24", "aria-hidden": "true" }, h("path", { d: shapes[name] }));

const hues = 12;

/** A circle with the first letter of a name, in a colour of its own. */
export function avatar(user, name, size = "") {
  let hue = 0;
  for (const character of user) hue = (hue * 31 + character.codePointAt(0)) % 997;
  const letter = [...(name || user || "?")][0].toUpperCase();
  return h("span", { class: `avatar ${size}`, "data-hue": String(hue % hues), "aria-hidden": "true" }, letter);
}
