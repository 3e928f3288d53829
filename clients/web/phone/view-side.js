// The side of the page: who is signed in, contacts, and history.

import { h } from "./dom.js";
import { avatar, icon } from "./icons.js";
import { elsewhere, others } from "./model.js";
import { entryText } from "./history-words.js";
import { whenText } from "./times.js";
import { groupText, ongoingText, sessionText, userName } from "./words.js";

export function header(model, act) {
  const { session } = model;
  const state = sessionText(session);
  return h(
    "header",
    { class: "top" },
    avatar(session.user, session.name),
    h(
      "div",
      { class: "who" },
      h("h1", null, session.name),
      h("p", { class: "quiet" }, state || `Signed in on ${session.deviceName}`),
    ),
    h("button", { type: "button", class: "plain", onclick: act.signOut }, icon("out"), h("span", null, "Sign out")),
  );
}

/** The permissions that the browser has to be asked for, which needs a click. */
export function asks(model, act) {
  if (model.asks.length === 0) return null;
  return h(
    "button",
    { type: "button", class: "ask", key: "asks", onclick: act.allow },
    icon("bell"),
    `Turn on ${model.asks.join(" and ")}`,
  );
}

/** Calls of the user on other devices. */
export const ongoing = (model, act) =>
  elsewhere(model).map((entry) =>
    h(
      "div",
      { class: "banner", key: `ongoing ${entry.call.id}` },
      h("p", null, `${ongoingText(model, entry)}.`),
      h("button", { type: "button", onclick: () => act.pull(entry) }, icon("here"), "Pull it here"),
    ),
  );

export function tabs(model, act) {
  const { unread } = model.history;
  const tab = (name, text, note) =>
    h(
      "button",
      {
        type: "button",
        role: "tab",
        id: `tab-${name}`,
        "aria-controls": `panel-${name}`,
        "aria-selected": String(model.tab === name),
        tabindex: model.tab === name ? "0" : "-1",
        onclick: () => act.tab(name),
        onkeydown: (event) => {
          if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
          act.tab(name === "contacts" ? "history" : "contacts");
          document.getElementById(name === "contacts" ? "tab-history" : "tab-contacts").focus();
        },
      },
      text,
      note,
    );
  const badge = unread > 0 && [
    h("span", { class: "badge", "aria-hidden": "true" }, unread),
    h("span", { class: "sr" }, `, ${unread} missed`),
  ];
  return h(
    "div",
    { class: "tabs", role: "tablist", "aria-label": "Lists" },
    tab("contacts", "Contacts"),
    tab("history", "History", badge),
  );
}

const panel = (name, ...children) =>
  h(
    "div",
    { class: "panel", role: "tabpanel", id: `panel-${name}`, key: name, "aria-labelledby": `tab-${name}` },
    children,
  );

/** Buttons that call a user. */
function callButtons(user, name, act) {
  const call = (text, iconName, isVideo) =>
    h(
      "button",
      {
        type: "button",
        class: isVideo ? "round" : "round call",
        "aria-label": text,
        title: text,
        onclick: () => act.dial(user, isVideo),
      },
      icon(iconName),
    );
  const text = `Call ${name}`;
  return h("span", { class: "buttons" }, call(text, "phone", false), call(`${text} with video`, "camera", true));
}

export function contacts(model, act) {
  const rows = others(model).map((contact) => {
    const { user, name = user } = contact;
    const text = groupText(model, contact);
    return h(
      "li",
      { key: user, "data-user": user },
      avatar(user, name),
      h("span", { class: "grow" }, name, text && h("span", { class: "quiet" }, text)),
      callButtons(user, name, act),
    );
  });
  return panel("contacts", h("ul", { class: "rows", "aria-label": "Contacts" }, rows), dialForm(act));
}

const dialForm = (act) =>
  h(
    "form",
    { class: "dial", onsubmit: act.dialForm },
    h("label", { for: "dial" }, "Call somebody else"),
    h("input", {
      id: "dial",
      name: "user",
      placeholder: "Name of the user",
      autocomplete: "off",
      autocapitalize: "none",
      maxlength: "128",
      required: true,
    }),
    h("button", { type: "submit" }, icon("phone"), "Call"),
  );

export function history(model, act) {
  const { isOn, entries, next, unread } = model.history;
  if (!isOn) return panel("history", h("p", { class: "empty" }, "This server keeps no history of calls."));
  return panel(
    "history",
    unread > 0 &&
      h(
        "div",
        { class: "read" },
        h("span", null, unread === 1 ? "1 missed call" : `${unread} missed calls`),
        h("button", { type: "button", id: "mark-read", onclick: act.markRead }, "Mark as read"),
      ),
    entries.length === 0
      ? h("p", { class: "empty" }, "No calls yet.")
      : h(
          "ul",
          { class: "rows", "aria-label": "History of calls" },
          entries.map((entry) => historyRow(model, act, entry)),
        ),
    next && h("button", { type: "button", onclick: act.older }, "Show older calls"),
  );
}

function historyRow(model, act, entry) {
  const name = userName(model, entry.user, entry.name);
  const kind = entry.missed ? "missed" : entry.placed ? "placed" : "received";
  return h(
    "li",
    { key: entry.cursor, class: kind },
    icon(kind),
    h(
      "span",
      { class: "grow" },
      h("b", null, name),
      h("span", { class: "quiet" }, entryText(model, entry)),
      h(
        "time",
        { class: "quiet", datetime: new Date(entry.placedMs).toISOString() },
        whenText(entry.placedMs, model.nowMs),
      ),
    ),
    callButtons(entry.user, name, act),
  );
}
