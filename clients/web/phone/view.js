// The whole page as a function of the model.

import { h } from "./dom.js";
import { beside, ringing, stage } from "./view-call.js";
import { dialogs, notices, signIn } from "./view-dialogs.js";
import { forwardChoice, quietChoice } from "./view-rules.js";
import { asks, contacts, header, history, ongoing, tabs } from "./view-side.js";

/**
 * @param act what the user can do, by name
 * @param media `media(id)`: the streams of a call, `{remote, local}`
 * @returns the nodes of the page
 */
export function page(model, act, media) {
  const { state } = model.session;
  const isSignedIn = state !== "signedOut" && state !== "refused";
  return [
    isSignedIn ? signedIn(model, act, media) : h("main", { key: "out", class: "out" }, signIn(model, act)),
    notices(model, act),
    dialogs(model, act),
    h("div", { class: "sr", role: "status", "aria-live": "polite", key: "say", id: "say" }, model.announcement),
  ].filter(Boolean);
}

function signedIn(model, act, media) {
  const isInCall = model.calls.some((call) => !call.isQuiet);
  return h(
    "div",
    { class: isInCall ? "page in-call" : "page", key: "in" },
    h(
      "aside",
      { class: "side", "aria-label": "Contacts and history" },
      header(model, act),
      asks(model, act),
      quietChoice(model, act),
      forwardChoice(model, act),
      tabs(model, act),
      model.tab === "contacts" ? contacts(model, act) : history(model, act),
    ),
    h(
      "main",
      { class: "main" },
      ongoing(model, act),
      ringing(model, act),
      beside(model, act, media),
      stage(model, act, media),
    ),
  );
}
