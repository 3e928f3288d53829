// Dialogs, and the page of who is not signed in.

import { h } from "./dom.js";
import { avatar, icon } from "./icons.js";
import { others } from "./model.js";
import { findCall } from "./model-calls.js";
import { forwardForm } from "./view-rules.js";
import { peerName } from "./words.js";

/** A dialog of the browser's own: it keeps the focus, and Escape closes it. */
function dialog(title, act, ...children) {
  const heading = "dialog-title";
  return h(
    "dialog",
    {
      key: "dialog",
      "aria-labelledby": heading,
      onclose: () => act.dialog(null),
      onmount: (element) => element.showModal(),
    },
    h("h2", { id: heading }, title),
    children,
    // The browser gives the focus back to where it was only when the dialog is closed before it is taken away.
    h("button", { type: "button", class: "plain", onclick: ({ target }) => target.closest("dialog").close() }, "Close"),
  );
}

export function dialogs(model, act) {
  switch (model.dialog?.kind) {
    case "transfer":
      return transfer(model, act);
    case "media":
      return mediaChoice(model, act);
    case "forward":
      return dialog("Forward calls", act, forwardForm(model, act));
    default:
      return null;
  }
}

function transfer(model, act) {
  const call = findCall(model, model.dialog.id);
  if (!call) return null;
  const free = others(model).filter(({ user }) => user !== call.peer?.user);
  const button = (what, text, onclick) => h("button", { type: "button", "data-do": what, onclick }, text);
  const rows = free.map(({ user, name = user }) =>
    h(
      "li",
      { key: user },
      avatar(user, name),
      h("span", { class: "grow" }, name),
      h(
        "span",
        { class: "buttons" },
        button(`transfer-${user}`, "Hand over", () => act.transfer(call.id, user)),
        button(`ask-${user}`, "Ask first", () => act.ask(call.id, user)),
      ),
    ),
  );
  return dialog(
    `Hand the call with ${peerName(model, call)} over`,
    act,
    h(
      "p",
      { class: "quiet" },
      "You have the call until somebody takes it. “Ask first” calls, and holds this call meanwhile.",
    ),
    rows.length > 0
      ? h("ul", { class: "rows", "aria-label": "Who may take it" }, rows)
      : h("p", null, "There is nobody to take it."),
  );
}

function mediaChoice(model, act) {
  const { microphones, cameras, speakers, chosen } = model.media;
  return dialog(
    "Devices",
    act,
    choice("Microphone", "audio", microphones, chosen, act),
    choice("Camera", "video", cameras, chosen, act),
    speakers.length > 0 && choice("Loudspeaker", "output", speakers, chosen, act),
  );
}

function choice(text, kind, devices, chosen, act) {
  const id = `choose-${kind}`;
  return h(
    "div",
    { class: "choice", key: kind },
    h("label", { for: id }, text),
    h(
      "select",
      { id, disabled: devices.length === 0, onchange: ({ target }) => act.choose(kind, target.value) },
      devices.length === 0 && h("option", { key: "none" }, "None"),
      devices.map(({ id, label }) => h("option", { key: id, value: id, selected: id === chosen[kind] }, label)),
    ),
  );
}

/** Who is not signed in gives a name. */
export function signIn(model, act) {
  const { state, error, deviceName } = model.session;
  return h(
    "form",
    { class: "card sign-in", key: "sign-in", onsubmit: act.signInForm },
    h("h1", null, "Callmesh phone"),
    state === "refused" && h("p", { class: "error" }, error),
    h("label", { for: "user" }, "Your name"),
    h("input", {
      id: "user",
      name: "user",
      required: true,
      maxlength: "64",
      autocomplete: "username",
      autocapitalize: "none",
      placeholder: "ann",
    }),
    h("label", { for: "device" }, "Name of this device"),
    h("input", { id: "device", name: "device", maxlength: "40", value: deviceName, autocomplete: "off" }),
    h("button", { type: "submit", class: "good" }, "Sign in"),
    h(
      "p",
      { class: "quiet" },
      "This is a server for development: it asks nobody for a password. ",
      "Open the page in a second window as somebody else, and call.",
    ),
  );
}

/** Messages about what did not work. */
export const notices = (model, act) =>
  h(
    "div",
    { class: "notices", key: "notices" },
    model.notices.map(({ id, kind, text }) =>
      h("div", { class: `notice ${kind}`, key: String(id) }, h("p", null, text), closeButton(() => act.noticeGone(id))),
    ),
  );

const closeButton = (onclick) =>
  h("button", { type: "button", class: "plain", "aria-label": "Close this message", onclick }, icon("close"));
