// Commands: sent, repeated under the same id until they are answered, and given up in the end.
//
// An entry is `queued` (to be sent, perhaps not before `nextAt`) or `sent` (its reply is awaited until `nextAt`).

import { CallmeshError, asksForRetry, leavesDoubt } from "./errors.js";
import { claim, dropInviteAck, sendDueAcks } from "./machine-acks.js";
import { begin, emitCall, leaving } from "./machine-calls.js";
import { giveUp, withdrawUnsent } from "./machine-giving-up.js";
import { takeReply } from "./machine-replies.js";
import { closed } from "./machine-connection.js";
import { beginMove, noteDraining } from "./machine-move.js";
import { left } from "./call-view.js";

const streams = ["description", "candidate", "information"];

/** Takes a command of the app. `tag` comes back with the effect `settle`. */
export function submit(m, { name, body, key, tag, view }) {
  const error = refusal(m, name, key, view);
  if (error) {
    m.act({ do: "settle", tag, error });
    if (view) emitCall(m, view, left(view, { reason: "failed", isLocal: true }, error));
    return;
  }
  if (name !== "query") claim(m, key);
  if ((name === "cancel" || name === "hangUp") && withdrawUnsent(m, key, tag)) return;
  if (name === "answer" && m.calls.get(key)?.state === "ringing") {
    m.calls.get(key).state = "answering";
    emitCall(m, m.calls.get(key), [{ type: "answering" }]);
  }
  enqueue(m, name, body, key, { tag });
}

/** Why a command is not taken; null: it is. */
function refusal(m, name, key, view) {
  if (m.phase.name === "stopped") return new CallmeshError(900, "The device is stopped.");
  if (m.pending.length >= m.settings.pendingMax) {
    return new CallmeshError(107, "Too many commands wait.");
  }
  if (streams.includes(name) && waiting(m, key) >= m.settings.signalsMax) {
    return new CallmeshError(409, "Too many descriptions and candidates wait.");
  }
  return view && !begin(m, view) ? new CallmeshError(406, "Too many calls.") : null;
}

const waiting = (m, key) =>
  m.pending.filter((entry) => entry.isStream && entry.key === key).length;

/**
 * Queues a command and sends it if nothing stands in its way. The machine's own commands have as much room again as
 * the app's: without them a call would ring for ever.
 */
export function enqueue(m, name, body, key, { tag = null, isFirst = false } = {}) {
  if (m.pending.length >= 2 * m.settings.pendingMax) return;
  const entry = {
    id: ++m.lastId,
    name,
    body,
    key,
    tag,
    until: repeatedUntil(m, name),
    expiresAt: m.now + withoutConnection(m, name),
    state: "queued",
    nextAt: 0,
    misses: 0,
    wasSent: false,
    isDoubtful: false,
    isStream: streams.includes(name),
    move: m.calls.get(key)?.move ?? 0,
  };
  m.pending.push(entry);
  if (isFirst) transmit(m, entry);
  else pump(m);
}

/** How long a command may wait for a connection, in milliseconds. */
function withoutConnection(m, name) {
  // Nobody expects somebody to ring a minute late.
  if (name === "place" || name === "transfer") return m.settings.placePatienceMs;
  return leaving[name] ? m.settings.leavePatienceMs : Infinity;
}

/** Until when a command is repeated; null: so many times. */
function repeatedUntil(m, name) {
  // No other command tells the cluster that the caller is back: its call would end there, and go on here.
  if (name === "resume") return Infinity;
  return leaving[name] ? m.now + m.settings.leavePatienceMs : null;
}

/** Sends what may be sent, in the order of ids. */
export function pump(m) {
  if (!m.isAttached) return;
  let inFlight = m.pending.filter(({ state }) => state === "sent").length;
  for (const entry of m.pending) {
    if (entry.state === "sent" || entry.nextAt > m.now || isHeldBack(m, entry)) continue;
    if (inFlight >= m.settings.inFlightMax) return;
    transmit(m, entry);
    inFlight += 1;
  }
}

/**
 * While a `place` is unanswered nothing else of its call is sent: it would be about an unknown call. Descriptions and
 * candidates leave in the order of their ids.
 */
function isHeldBack(m, entry) {
  if (entry.key === null) return false;
  for (const other of m.pending) {
    if (other.id >= entry.id) return false;
    if (other.key !== entry.key) continue;
    if (other.name === "place" || (entry.isStream && other.isStream && other.state === "queued")) {
      return true;
    }
  }
  return false;
}

function transmit(m, entry) {
  dropInviteAck(m, entry.name, entry.key);
  sendDueAcks(m, true);
  entry.state = "sent";
  entry.wasSent = true;
  entry.nextAt = m.now + m.settings.commandTimeoutMs;
  m.act({ do: "send", frame: { id: entry.id, [entry.name]: entry.body } });
}

/** The connection is gone: what had no reply is sent again on the next one, under the same id. */
export function requeueAll(m) {
  for (const entry of m.pending) {
    if (entry.state === "sent") entry.isDoubtful = true;
    entry.state = "queued";
    entry.nextAt = 0;
    // A loss together with a connection does not count as an attempt.
    entry.misses = 0;
  }
}

export function finish(m, entry, error, reply) {
  const index = m.pending.indexOf(entry);
  if (index < 0) return;
  m.pending.splice(index, 1);
  if (entry.tag !== null) m.act({ do: "settle", tag: entry.tag, error, reply });
}

export function nextCommandDeadline(m) {
  let next = Infinity;
  for (const entry of m.pending) {
    if (!m.isAttached || !entry.wasSent) next = Math.min(next, entry.expiresAt);
    // An entry that waits for another one, or for room, has `nextAt` in the past and no time of its own.
    if (m.isAttached && entry.nextAt > m.now) next = Math.min(next, entry.nextAt);
    if (m.isAttached && entry.state === "sent") next = Math.min(next, entry.nextAt);
  }
  return next;
}

/** Repeats commands without a reply, and gives up those without attempts left. */
export function retransmitDue(m) {
  for (const entry of [...m.pending]) {
    if (entry.state !== "sent" || entry.nextAt > m.now) continue;
    entry.isDoubtful = true;
    entry.misses += 1;
    if (mayRepeat(m, entry)) requeue(m, entry, m.now);
    else giveUp(m, entry, new CallmeshError(501, "No reply came."));
  }
  pump(m);
}

const mayRepeat = (m, entry) =>
  entry.until !== null
    ? m.now < entry.until
    : entry.misses < m.settings.commandAttempts && m.now < entry.expiresAt;

/** To be sent again at `at`. Later ones of the same stream follow it, so that their order is kept. */
function requeue(m, entry, at) {
  entry.state = "queued";
  entry.nextAt = at;
  if (!entry.isStream) return;
  for (const later of m.pending) {
    if (!later.isStream || later.key !== entry.key || later.id <= entry.id) continue;
    if (later.state === "sent") later.isDoubtful = true;
    later.state = "queued";
    later.nextAt = Math.min(later.nextAt, at);
  }
}

/** A reply to anything but the attach. */
export function replied(m, reply) {
  const entry = m.pending.find(({ id }) => id === reply.id);
  if (!entry) return;
  const error = reply.error ? CallmeshError.from(reply.error) : null;
  if (error && leavesDoubt(error.code)) entry.isDoubtful = true;
  if (error?.code === 104) return closed(m, 0, true);
  if (error && asksForRetry(error.code)) {
    // A refusal of what is queued again already: it says nothing new.
    if (entry.state === "queued") return;
    entry.misses += 1;
    if (mayRepeat(m, entry)) return postpone(m, entry, error);
    return giveUp(m, entry, error);
  }
  finish(m, entry, error, reply);
  takeReply(m, entry, reply, error);
  pump(m);
}

function postpone(m, entry, error) {
  const floor = Math.max(error.retryAfterMs, 200 * 2 ** Math.min(entry.misses, 6));
  requeue(m, entry, m.now + floor * (1 + m.random() / 2));
  // This edge takes no new calls: the command is repeated on another one.
  if (error.code === 502) {
    noteDraining(m, m.edge);
    beginMove(m, 0);
  }
  pump(m);
}
