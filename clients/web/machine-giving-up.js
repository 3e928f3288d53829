// Commands that are given up, and what that means for their calls.

import { emitCall, leave, leaving } from "./machine-calls.js";
import { enqueue, finish } from "./machine-commands.js";
import { CallmeshError } from "./errors.js";
import { isOver } from "./call-view.js";

export function giveUp(m, entry, error) {
  finish(m, entry, error);
  const view = m.calls.get(entry.key);
  if (leaving[entry.name]) {
    // The call is over here, and must not go on because this device is back.
    for (const resume of m.pending.filter(({ name, key }) => name === "resume" && key === entry.key)) finish(m, resume, error);
    leave(m, entry.key, { reason: leaving[entry.name], isLocal: true }, error);
  } else if (entry.name === "query" && view?.state === "waking") {
    leave(m, entry.key, { reason: "failed", isLocal: true }, error);
  } else if (entry.name === "answer") {
    answerFailed(m, view);
  } else if (entry.name === "place") {
    withdraw(m, entry, error);
  }
}

/** The call rings on: its user may try once more. */
export function answerFailed(m, view) {
  if (view?.state !== "answering") return;
  view.state = "ringing";
  emitCall(m, view, [{ type: "ringing", by: null }]);
}

/** A `place` that was given up may still ring somebody: cancels the call until that is answered. */
function withdraw(m, entry, error) {
  const view = m.calls.get(entry.key);
  const isKnown = view && view.state !== "placing" && !isOver(view);
  if (view?.state === "placing") leave(m, entry.key, { reason: "failed", isLocal: true }, error);
  // A call that is known to be placed is the app's to end.
  if (entry.isDoubtful && !isKnown) enqueue(m, "cancel", { call: entry.body.call }, entry.key);
}

/** Gives up commands that were without a connection for so long that nobody expects them to take effect. */
export function expire(m) {
  for (const entry of m.pending.filter(({ expiresAt }) => expiresAt <= m.now)) {
    if (entry.wasSent && m.isAttached) continue;
    const error = new CallmeshError(entry.isDoubtful || entry.state === "sent" ? 501 : 104, "There was no connection.");
    if (entry.wasSent || entry.name !== "place") {
      if (entry.state === "sent") entry.isDoubtful = true;
      giveUp(m, entry, error);
    } else {
      dropAll(m, entry.key, error);
      leave(m, entry.key, { reason: "failed", isLocal: true }, error);
    }
  }
}

/** Attached again: a call that its user has given up meanwhile is not placed once more. */
export function dropGivenUpPlaces(m) {
  for (const place of m.pending.filter(({ name }) => name === "place")) {
    const end = m.pending.find(({ name, key }) => leaving[name] && key === place.key);
    if (!end) continue;
    finish(m, place, new CallmeshError(501, "The call was given up."));
    leave(m, place.key, { reason: leaving[end.name], isLocal: true });
  }
}

/** A call is given up whose `place` has not left this device: nobody needs to know of it. */
export function withdrawUnsent(m, key, tag) {
  const place = m.pending.find((entry) => entry.name === "place" && entry.key === key);
  if (!place || place.wasSent) return false;
  dropAll(m, key, new CallmeshError(501, "The call was given up."));
  leave(m, key, { reason: "cancelled", isLocal: true });
  m.act({ do: "settle", tag, reply: { call: { phase: "ended", reason: "cancelled" } } });
  return true;
}

/** Gives up all commands of a call. */
export function dropAll(m, key, error) {
  for (const entry of m.pending.filter((entry) => entry.key === key)) finish(m, entry, error);
}

/** The call is over: what nobody can get any more need not be sent. */
export function dropSignals(m, key) {
  const isUseless = (entry) => entry.isStream && entry.key === key && entry.state === "queued";
  for (const entry of m.pending.filter(isUseless)) finish(m, entry, null, { done: {} });
}
