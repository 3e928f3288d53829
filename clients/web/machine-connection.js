// How the device connects, attaches, and comes back; and its token.

import { CallmeshError, isFinalForAttach } from "./errors.js";
import { endAll } from "./machine-calls.js";
import { enqueue, pump, requeueAll } from "./machine-commands.js";
import { dropGivenUpPlaces, expire } from "./machine-giving-up.js";
import { forgetAcks } from "./machine-acks.js";
import { resumeCalls } from "./machine-replies.js";
import { showOngoing, wokenAttached } from "./machine-waking.js";
import {
  abandonMove,
  beginMove,
  edgeAfter,
  noteDraining,
  switchAfterBreak,
  switchEarly,
} from "./machine-move.js";
import { isInCall, noteNearer } from "./machine-nearer.js";
import { attachInFlightMs } from "./settings.js";

const openAttachesMax = 8;
const waitInCallMaxMs = 2000;
const attemptsInCallMax = 60;

/** The connection is open: the attach must be the first command. */
export function opened(m) {
  if (m.phase.name !== "connecting") return;
  const frame = attachFrame(m);
  m.attachId = frame.id;
  m.phase = { name: "attaching", until: m.now + m.settings.attachTimeoutMs };
  m.act({ do: "send", frame });
}

export function attachFrame(m) {
  const { device, deviceName, client, nearer, onlyPlaces, ongoing, history, relays } = m.settings;
  const attach = { token: m.token, client };
  const woken = m.woken.at(-1);
  if (woken) attach.forCall = woken.slice(0, woken.indexOf("/"));
  const optional = { device, deviceName, nearer, onlyPlaces, ongoing, history, relays };
  for (const [name, value] of Object.entries(optional)) if (value) attach[name] = value;
  const id = ++m.lastId;
  if (m.openAttaches.length === openAttachesMax) m.openAttaches.shift();
  m.openAttaches.push({ id, at: m.now });
  return { id, attach };
}

export function connect(m) {
  // A nearer edge is not in the list. After a break the device returns to the list.
  if (!m.settings.edges.includes(m.edge)) m.edge = m.listedEdge;
  m.phase = { name: "connecting", until: m.now + m.settings.attachTimeoutMs };
  m.act({ do: "connect", url: m.edge });
}

/** A wait that doubles with each failure, with jitter of half. */
export const backoff = (m, failures) =>
  doubling(m, failures, m.settings.backoffMinMs, m.settings.backoffMaxMs);

function doubling(m, failures, least, longest) {
  const most = Math.min(least * 2 ** Math.min(failures, 16), longest);
  return most / 2 + (m.random() * most) / 2;
}

/**
 * The wait before another attempt. Edges that answer too many devices too late answer none: after an attempt without an
 * answer each waits longer, but no longer than after any failure. Few devices are in a call, and that ends when one of
 * them stays away; who has tried for minutes is too late for it.
 */
function pause(m, isUnanswered) {
  const { backoffMinMs, backoffMaxMs } = m.settings;
  if (isInCall(m) && m.failures < attemptsInCallMax) {
    return doubling(m, m.failures, backoffMinMs, Math.min(backoffMaxMs, waitInCallMaxMs));
  }
  return isUnanswered ? doubling(m, m.failures, 4 * backoffMinMs, backoffMaxMs) : backoff(m, m.failures);
}

/**
 * Schedules an attempt at the next edge. A session that broke leaves a random moment of a second, since thousands of
 * devices may have lost their edge at once.
 */
export function wait(m, { atLeast = 0, isUnanswered = false, code = 0, error = null } = {}) {
  let span;
  if (m.isAttached) {
    span = m.random() * m.settings.reconnectSpreadMs;
  } else {
    span = pause(m, isUnanswered);
    m.failures += 1;
  }
  m.edge = edgeAfter(m, m.edge);
  forgetAcks(m);
  m.pingedAt = null;
  span = Math.max(span, atLeast);
  // Who was told when to come back does not come sooner, whatever happens on the page.
  m.phase = { name: "waiting", until: m.now + span, isOrdered: atLeast > 0 };
  m.tell("detached", { retryInMs: span, code, error });
}

/** The browser keeps the page for a way back. To the cluster the device is away until the user comes back. */
export function suspend(m) {
  if (["stopped", "waiting"].includes(m.phase.name)) return;
  m.act({ do: "close", code: 3000 });
  abandonMove(m);
  forgetAcks(m);
  m.pingedAt = null;
  m.phase = { name: "waiting", until: Infinity, isSuspended: true };
  m.tell("detached", { retryInMs: Infinity, code: 0, error: null });
}

/** No connection, or no reply to the attach, in time. */
export function timedOut(m) {
  m.act({ do: "close", code: 3000 });
  wait(m, { isUnanswered: true });
}

/** The connection broke, was closed, or could not be made. `isOurs`: it is still to be closed. */
export function closed(m, code = 0, isOurs = false) {
  if (["stopped", "waiting"].includes(m.phase.name)) return;
  if (isOurs) m.act({ do: "close", code: 3000 });
  if (code === 4000) return replaced(m);
  if (code === 4001) return refuse(m, new CallmeshError(901, "The device was removed."));
  if (code === 4002) noteDraining(m, m.edge);
  if (code === 4008 || code === 4009) return tokenEnded(m, code);
  if (m.move) return switchAfterBreak(m);
  wait(m, { code, atLeast: code === 4006 ? 60_000 : 0 });
}

/** The session ended with its token. */
function tokenEnded(m, code) {
  const error = new CallmeshError(code === 4008 ? 201 : 204, "The session ended with its token.");
  if (!m.settings.canRenew) return refuse(m, error);
  m.isTokenRefused = true;
  if (m.move) switchAfterBreak(m);
  else wait(m, { code, error });
  askForToken(m);
}

export function attachReplied(m, reply) {
  if (reply.attached) return attached(m, reply.attached, m.attachId);
  const error = CallmeshError.from(reply.error);
  if (mayRenew(m, error)) {
    m.act({ do: "close", code: 3000 });
    wait(m, { error });
    m.isTokenRefused = true;
    return askForToken(m);
  }
  if (isFinalForAttach(error.code)) return refuse(m, error);
  if (error.code === 502) noteDraining(m, m.edge);
  m.act({ do: "close", code: 3000 });
  wait(m, { atLeast: error.retryAfterMs, error });
}

/** The current connection is attached by the request `id`. */
export function attached(m, info, id) {
  const isAgain = m.attachedBefore;
  // A page that was frozen connects before its timer fires.
  expire(m);
  m.attachId = id;
  m.openAttaches = m.openAttaches.filter((open) => open.id !== id && m.now < open.at + attachInFlightMs);
  m.failures = 0;
  m.phase = { name: "attached" };
  m.attachedBefore = true;
  m.user = info.user ?? "";
  m.device = info.device ?? "";
  m.heardAt = m.now;
  m.pingedAt = null;
  m.clockOffset = (info.serverTimeMs ?? 0) - m.now;
  const { relays, ...facts } = info;
  // Before the app hears of it, so that it can place a call at once.
  m.relays = relays ?? null;
  m.tell("attached", { ...facts, isAgain });
  // State that an earlier connection has shown no longer counts.
  showOngoing(m, info.ongoing ?? {}, false);
  requeueAll(m);
  dropGivenUpPlaces(m);
  if (isAgain) resumeCalls(m);
  pump(m);
  wokenAttached(m, info);
  noteNearer(m, info.nearer ?? "");
}

/** No attempt is made any more: the token or the device was refused, or another page has it. */
export function refuse(m, error) {
  m.act({ do: "close", code: 3000 });
  abandonMove(m);
  m.phase = { name: "stopped" };
  m.tell("refused", { error });
  endAll(m, error);
}

export function noticed(m, notice) {
  m.tell("notice", notice);
  switch (notice.kind) {
    case "sessionReplaced":
      return replaced(m);
    case "tokenExpires":
      return askForToken(m);
    case "nearer":
      return noteNearer(m, notice.nearer ?? "");
    case "goAway":
      noteDraining(m, m.edge);
      if (m.isAttached) return beginMove(m, notice.retryAfterMs ?? 0);
      m.act({ do: "close", code: 3000 });
      return wait(m, { atLeast: notice.retryAfterMs ?? 0 });
  }
}

/**
 * Replaced by the connection that this device moves to, by an attach of its own that arrived late, or by another copy
 * of the device. Only the copy keeps it from coming back: two copies would replace each other for ever.
 */
function replaced(m) {
  if (["stopped", "waiting"].includes(m.phase.name) || switchEarly(m)) return;
  const isOwn = m.openAttaches.some(({ id, at }) => id !== m.attachId && m.now < at + attachInFlightMs);
  if (!isOwn) return refuse(m, new CallmeshError(901, "The device attached elsewhere."));
  abandonMove(m);
  m.act({ do: "close", code: 3000 });
  wait(m, { code: 4000 });
}

// The token.

/** Connects at once instead of after the wait. */
export function hurry(m) {
  if (m.phase.name !== "waiting" || m.phase.isOrdered) return;
  if (!wantsToken(m)) connect(m);
  else if (m.phase.isSuspended) awaitToken(m);
}

export const wantsToken = (m) => m.isTokenRefused || !m.token;

export function askForToken(m) {
  if (!m.settings.canRenew || m.tokenAwaitedUntil > m.now) return;
  m.tokenAwaitedUntil = m.now + m.settings.tokenTimeoutMs;
  m.act({ do: "token" });
}

/** It is time to connect, and there is no good token: the one that is asked for ends the wait. */
export function awaitToken(m) {
  m.phase = { name: "waiting", until: m.now + m.settings.tokenTimeoutMs, isForToken: true };
  askForToken(m);
}

/** A new token; null: there was none to be had. */
export function tokenCame(m, token) {
  m.tokenAwaitedUntil = 0;
  const isAwaited = m.phase.name === "waiting" && m.phase.isForToken;
  if (!token) {
    if (isAwaited) m.phase.until = m.now + backoff(m, m.failures++);
    return;
  }
  m.token = token;
  // Another wait is not cut short: a new token that is refused as well must not cause attempts without end.
  m.isTokenRefused = false;
  if (m.isAttached) enqueue(m, "renew", { token }, null);
  else if (isAwaited) connect(m);
}

/** Whether another token can help. */
export function mayRenew(m, { code }) {
  if (!m.settings.canRenew) return false;
  // A token of this server was good before: the keys have changed. Otherwise a new one would have the same mistake.
  return code === 201 || code === 204 || (code === 200 && m.attachedBefore);
}
