// The user's decisions about calls in advance: do not disturb, and forwarding.

import { h } from "./dom.js";
import { forwardText, isForwarding, patiences, situations } from "./forwarding.js";
import { icon } from "./icons.js";
import { others, quietUntil } from "./model.js";
import { whenText } from "./times.js";

const quietChoices = [
  ["off", "Ring for calls"],
  ["hour", "Do not disturb for an hour"],
  ["morning", "Do not disturb until 8 tomorrow"],
  ["on", "Do not disturb until I change it"],
];

export function quietChoice(model, act) {
  const quiet = quietUntil(model);
  const isLimited = quiet && quiet.untilMs > 0;
  const current = quiet ? (isLimited ? "until" : "on") : "off";
  const until = isLimited ? [["until", `Do not disturb until ${whenText(quiet.untilMs, model.nowMs)}`]] : [];
  return h(
    "label",
    { class: quiet ? "choice strong" : "choice" },
    h("span", null, "Calls"),
    h(
      "select",
      {
        id: "disturb",
        disabled: model.rules === null,
        onchange: ({ target }) => target.value !== "until" && act.disturb(target.value),
      },
      [...until, ...quietChoices].map(([value, text]) =>
        h("option", { value, key: value, selected: value === current }, text),
      ),
    ),
  );
}

/** Where calls go, and the buttons that change it. */
export function forwardChoice(model, act) {
  const isOn = isForwarding(model);
  const button = (id, onclick, ...content) =>
    h(
      "button",
      { type: "button", key: id, id, disabled: model.rules === null, "aria-describedby": "forward-text", onclick },
      content,
    );
  const switchOff = () => {
    // This button goes away, and would take the focus with it.
    document.getElementById("forward").focus();
    act.forwardNowhere();
  };
  return h(
    "div",
    { class: isOn ? "forward strong" : "forward" },
    h("p", { id: "forward-text", class: isOn ? "" : "quiet" }, forwardText(model)),
    button("forward", () => act.dialog({ kind: "forward" }), icon("transfer"), isOn ? "Change…" : "Forward calls…"),
    isOn && button("forward-off", switchOff, "Switch off"),
  );
}

/** The fields that say where calls go; in a dialog. */
export function forwardForm(model, act) {
  const { problem } = model.dialog;
  const rules = model.rules ?? {};
  return h(
    "form",
    { class: "fields", key: "forward", onsubmit: act.forwardForm },
    h("p", { class: "quiet", id: "forward-help" }, "Give the names of users, separated by commas. An empty field forwards nothing."),
    situations.map(({ rule, label }) => [
      goal(rule, label, rules[rule]?.users ?? [], problem),
      rule === "onNoAnswer" && patience(rules.noAnswerSeconds),
    ]),
    h("datalist", { id: "forward-users" }, others(model).map(({ user, name }) => h("option", { key: user, value: user }, name))),
    problem && h("p", { class: "error", role: "alert", id: "forward-problem" }, problem.text),
    h("button", { type: "submit", class: "good" }, "Save"),
  );
}

function goal(rule, label, users, problem) {
  const id = `forward-${rule}`;
  const isWrong = problem?.rule === rule;
  return h(
    "div",
    { class: "choice", key: rule },
    h("label", { for: id }, label),
    h("input", {
      id,
      name: rule,
      value: users.join(", "),
      list: "forward-users",
      autocomplete: "off",
      autocapitalize: "none",
      "aria-invalid": isWrong && "true",
      "aria-describedby": isWrong ? "forward-problem" : "forward-help",
    }),
  );
}

function patience(seconds = 20) {
  const choices = [...new Set([...patiences, seconds])].sort((a, b) => a - b);
  return h(
    "div",
    { class: "choice", key: "patience" },
    h("label", { for: "forward-seconds" }, "Nobody answers for"),
    h(
      "select",
      { id: "forward-seconds", name: "noAnswerSeconds" },
      choices.map((value) => h("option", { key: String(value), value, selected: value === seconds }, `${value} seconds`)),
    ),
  );
}
