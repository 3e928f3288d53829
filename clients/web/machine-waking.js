// Calls that a push announced, and what the cluster says about the user: ongoing calls and the history.

import { noteAck } from "./machine-acks.js";
import { begin, isAddress, keyOf, leave, takeCallState } from "./machine-calls.js";
import { enqueue } from "./machine-commands.js";
import { hurry } from "./machine-connection.js";
import { wokenMax } from "./settings.js";
import { isOver, newView } from "./call-view.js";

/** A push announced a call: connects at once and asks about it. `incoming` or `ended` follows. */
export function wake(m, id, callee) {
  const call = { id: id.toLowerCase(), callee };
  const key = keyOf(call);
  let view = m.calls.get(key);
  if (view && view.state !== "waking") {
    // A call that was over here may ring once more, for a transfer: its invite comes to an attached device.
    if (isOver(view)) hurry(m);
    return;
  }
  view ??= newView(call.id, callee, "callee", "waking");
  if (!begin(m, view)) return;
  if (m.isAttached) return enqueue(m, "query", { call }, key);
  if (!m.woken.includes(key)) m.woken.push(key);
  if (m.woken.length > wokenMax) leave(m, m.woken.shift(), { reason: "failed", isLocal: true });
  // The push came, so there is a network.
  m.failures = 0;
  hurry(m);
}

/** The attach's reply has the state of one call; the others are asked about. */
export function wokenAttached(m, info) {
  for (const key of m.woken.splice(0)) {
    const view = m.calls.get(key);
    if (!view || view.state !== "waking") continue;
    const state = info.forCall;
    const isOwn = isAddress(state?.call) && keyOf(state.call) === key;
    if (isOwn) takeCallState(m, view, state);
    else enqueue(m, "query", { call: { callee: view.callee, id: view.id } }, key);
  }
}

/** The calls that the user is in, on all devices. A frame is acknowledged; the attach's reply is not. */
export function showOngoing(m, ongoing, isFrame) {
  if (isFrame) {
    if (!(ongoing.version >= m.ongoing.version)) return;
    noteAck(m, { version: ongoing.version }, null, false);
  }
  const former = JSON.stringify(m.ongoing.calls);
  m.ongoing = { version: ongoing.version ?? 0, calls: ongoing.calls ?? [] };
  if (JSON.stringify(m.ongoing.calls) !== former) m.tell("ongoing", { calls: m.ongoing.calls });
}

/** How the user's history stands. */
export function showHistory(m, { cursor = "", unread = 0 }) {
  if (m.history?.cursor === cursor && m.history.unread === unread) return;
  m.history = { cursor, unread };
  m.tell("history", m.history);
}

/** New credentials for the TURN servers, in place of those that will expire. */
export function takeRelays(m, relays) {
  m.relays = relays;
  m.tell("relays");
}
