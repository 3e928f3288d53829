// Calls that go to others instead: the user's rules in words, and what a form asks for. Pure functions.

import { listText, userName } from "./words.js";

/** When calls go to others: the rule of the protocol, the label of its field, and the words for it in a sentence. */
export const situations = [
  { rule: "always", label: "Always", when: "" },
  { rule: "onNoAnswer", label: "When nobody answers", when: "nobody answers" },
  { rule: "onBusy", label: "When you are busy, or not to be disturbed", when: "you are busy" },
  { rule: "onUnreachable", label: "When no device of yours can be reached", when: "no device can be reached" },
];

/** How long nobody answers before a call goes on, in seconds. */
export const patiences = [5, 10, 15, 20, 30, 60];

/** Limits of the cluster. */
const usersMax = 10;
const userBytesMax = 128;

/** Whether calls go to others in any situation. */
export const isForwarding = (model) => situations.some(({ rule }) => model.rules?.[rule]);

/** Where the user's calls go, in a sentence. */
export function forwardText(model) {
  const rules = model.rules ?? {};
  const names = ({ users }) => listText(users.map((user) => userName(model, user)));
  if (rules.always) return `All calls go to ${names(rules.always)}`;
  const goals = new Map();
  for (const { rule, when } of situations) {
    if (!rules[rule]) continue;
    const name = names(rules[rule]);
    goals.set(name, [...(goals.get(name) ?? []), when]);
  }
  const parts = [...goals].map(([name, whens]) => `to ${name} when ${listText(whens, "or")}`);
  return parts.length > 0 ? `Calls go ${parts.join(", and ")}` : "Calls go to nobody else";
}

/** The rules with which calls go nowhere else. */
export const noForwards = Object.fromEntries(situations.map(({ rule }) => [rule, undefined]));

/**
 * Reads the fields of a form: users by their ids or names, separated by commas, and `noAnswerSeconds`.
 * @returns `{rules}`, where a rule that is off is undefined, or `{problem: {rule, text}}`: why a field does not hold
 */
export function forwardsFrom(model, fields) {
  const rules = { ...noForwards, noAnswerSeconds: Number(fields.noAnswerSeconds) || undefined };
  for (const { rule } of situations) {
    const users = usersIn(model, fields[rule] ?? "");
    const text = problemOf(model, users);
    if (text) return { problem: { rule, text } };
    if (users.length > 0) rules[rule] = { users };
  }
  return { rules };
}

function usersIn(model, text) {
  const words = text.split(",").map((word) => word.trim()).filter(Boolean);
  return [...new Set(words.map((word) => userNamed(model, word)))];
}

function userNamed({ contacts }, word) {
  if (contacts.some(({ user }) => user === word)) return word;
  const isMeant = ({ name = "" }) => name.toLowerCase() === word.toLowerCase();
  return contacts.find(isMeant)?.user ?? word;
}

function problemOf(model, users) {
  if (users.includes(model.session.user)) return "You cannot forward calls to yourself.";
  if (users.length > usersMax) return `Calls can go to ${usersMax} users at most.`;
  const long = users.find((user) => new TextEncoder().encode(user).length > userBytesMax);
  if (long) return `“${[...long].slice(0, 20).join("")}…” is too long for a user.`;
  // Characters that nobody sees, and spaces but single ones between words.
  const odd = users.find((user) => /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]| {2}|(?! )\p{Zs}/u.test(user));
  return odd === undefined ? "" : `“${odd}” is no user: it has spaces or characters that cannot be seen.`;
}
