// The state of the phone, and what changes it. Pure functions: events go in, the next state comes out.

import { forwardText } from "./forwarding.js";
import { callEvents, withDurations } from "./model-calls.js";

/** The most messages that are shown at a time. Policy at the limit: the oldest goes. */
const noticesMax = 3;
/** How long a message and the end of a call stay. */
export const noticeMs = 12_000;
export const endedMs = 12_000;

/** @param settings `contacts` (a list of `{user, name}`) and `deviceName` */
export function initial(settings = {}) {
  return {
    session: { user: "", name: "", device: "", deviceName: settings.deviceName ?? "", state: "signedOut", error: "" },
    contacts: settings.contacts ?? [],
    tab: "contacts",
    /** The calls that this device has or had just now, the oldest first. */
    calls: [],
    /** The answered calls of the user on all devices. */
    ongoing: [],
    history: { isOn: true, entries: [], next: "", cursor: "", unread: 0, readUpTo: "" },
    rules: null,
    /** An open dialog: `{kind, …}`. */
    dialog: null,
    notices: [],
    /** The text that a screen reader says next. */
    announcement: "",
    media: { microphones: [], cameras: [], speakers: [], chosen: {} },
    /** The permissions that the browser still has to be asked for with a click: `sounds`, `notifications`. */
    asks: [],
    nowMs: settings.nowMs ?? 0,
    lastId: 0,
  };
}

const withSession = (model, session) => ({ ...model, session: { ...model.session, ...session } });

const events = {
  ...callEvents,

  signingIn: (model, { user, name, deviceName }) =>
    withSession(model, { user, name, deviceName, state: "connecting", error: "" }),
  attached: (model, { user, device }) => withSession(model, { user, device, state: "attached", error: "" }),
  detached: (model) => withSession(model, { state: "away" }),
  refused: (model, { text }) => ({ ...withSession(model, { state: "refused", error: text }), announcement: text }),
  signedOut: (model) => ({
    ...initial({ contacts: model.contacts, deviceName: model.session.deviceName, nowMs: model.nowMs }),
    media: model.media,
  }),

  contacts: (model, { contacts }) => ({ ...model, contacts: sortedContacts(contacts) }),
  /** `aheadMs`: by how much this device's clock is ahead of the cluster's. */
  ongoing(model, { calls, aheadMs = 0 }) {
    const ongoing = calls.map((entry) => ({ ...entry, sinceMs: entry.sinceMs + aheadMs }));
    return withDurations({ ...model, ongoing });
  },
  rules(model, { rules }) {
    const next = { ...model, rules };
    const isNews = model.rules && forwardText(next) !== forwardText(model);
    return isNews ? { ...next, announcement: forwardText(next) } : next;
  },

  historyState: (model, { unread }) => ({ ...model, history: { ...model.history, unread } }),
  history: (model, { page, isOlder }) => ({ ...model, history: withPage(model.history, page, isOlder) }),
  historyOff: (model) => ({ ...model, history: { ...model.history, isOn: false } }),

  tab: (model, { tab }) => ({ ...model, tab }),
  dialog: (model, { dialog }) => ({ ...model, dialog }),
  media: (model, { type, ...media }) => ({ ...model, media: { ...model.media, ...media } }),
  asks: (model, { asks }) => ({ ...model, asks }),

  notice(model, { text, kind = "error" }) {
    const lastId = model.lastId + 1;
    const others = model.notices.filter((notice) => notice.text !== text);
    const notices = [...others, { id: lastId, text, kind, untilMs: model.nowMs + noticeMs }].slice(-noticesMax);
    return { ...model, lastId, notices, announcement: text };
  },
  noticeGone: (model, { id }) => ({ ...model, notices: model.notices.filter((notice) => notice.id !== id) }),

  /** A second has passed: messages and ended calls go when their time is over. */
  tick(model, { nowMs }) {
    const notices = model.notices.filter((notice) => notice.untilMs > nowMs);
    const calls = model.calls.filter((call) => !call.end || call.endedAtMs + endedMs > nowMs);
    const kept = calls.length === model.calls.length ? model.calls : calls;
    return { ...model, nowMs, notices: notices.length === model.notices.length ? model.notices : notices, calls: kept };
  },
};

/** @returns the state after `event`, which has a `type` */
export function reduce(model, event) {
  const change = events[event.type];
  if (!change) throw new Error(`No such event: ${event.type}`);
  return change(model, event);
}

function sortedContacts(contacts) {
  const byUser = new Map(contacts.map((contact) => [contact.user, contact]));
  return [...byUser.values()].sort((a, b) => (a.name || a.user).localeCompare(b.name || b.user));
}

function withPage(history, page, isOlder) {
  const known = isOlder ? history.entries : [];
  const cursors = new Set(known.map((entry) => entry.cursor));
  const entries = [...known, ...page.entries.filter((entry) => !cursors.has(entry.cursor))];
  const { cursor, unread = 0, readUpTo = "" } = page;
  return { ...history, isOn: true, entries, next: page.next ?? "", cursor, unread, readUpTo };
}

/** Whether the user is not to be disturbed, and until when. */
export function quietUntil(model) {
  const rule = model.rules?.doNotDisturb;
  if (!rule) return null;
  if (rule.untilMs && rule.untilMs <= model.nowMs) return null;
  return { untilMs: rule.untilMs ?? 0 };
}

/** Who can be called: all contacts but the user. */
export const others = (model) => model.contacts.filter((contact) => contact.user !== model.session.user);

/** The user's calls on other devices, which can be pulled here. */
export const elsewhere = (model) =>
  model.ongoing.filter(
    (entry) =>
      entry.device !== model.session.device && !model.calls.some((call) => call.id === entry.call.id && !call.end),
  );
