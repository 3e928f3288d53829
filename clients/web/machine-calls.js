// Calls: which of them are known, what deliveries mean for them, and what the app is told.

import { noteAck } from "./machine-acks.js";
import { enqueue } from "./machine-commands.js";
import { dropSignals } from "./machine-giving-up.js";
import { stayForCall } from "./machine-nearer.js";
import { hasSide, isOver, isRingingHere, isTalking, left, newView, ringsAgain, takeDelivery, takeState } from "./call-view.js";

/** Commands with which this device leaves a call, and the reason of the end. */
export const leaving = { decline: "declined", busy: "busy", cancel: "cancelled", hangUp: "hungUp" };

/** The name of a call in the table. The callee belongs to it: another call may have the same id. */
export const keyOf = (call) => `${call.id.toLowerCase()}/${call.callee}`;

export const isAddress = (call) => typeof call?.id === "string" && typeof call.callee === "string";

/** Tells the app what happened to a call. */
export function emitCall(m, view, events) {
  for (const event of events) {
    m.act({ do: "call", view, event });
    if (event.type === "ended") ended(m, view, event);
  }
}

function ended(m, view, { reason, survivor }) {
  remember(m, `${view.id}/${view.callee}`);
  dropSignals(m, `${view.id}/${view.callee}`);
  // The call that goes on is one to this user. Its invite comes, or came before.
  if (reason !== "glare" || view.role !== "caller" || typeof survivor !== "string") return;
  const id = survivor.toLowerCase();
  const known = [...m.calls].find(([, other]) => other.id === id);
  if (known) {
    const [key, other] = known;
    // It stopped ringing here, and this device's user has called back: it may come back, or be over everywhere.
    if (!isOver(other) || !["unanswered", "declined", "busy"].includes(other.end.reason)) return;
    forget(m, key, ringsAgain(other, other.version));
  }
  awaitInvite(m, id, m.user);
}

/** A call that was over here may ring again. */
function forget(m, key, again) {
  m.endedCalls = m.endedCalls.filter((other) => other !== key);
  m.calls.set(key, again);
}

/**
 * The invite of a call should come. It may not: the cluster may not know this device's session, and the device may
 * decline meanwhile by HTTP, whose reply this page does not see. Then the device asks.
 */
export function awaitInvite(m, id, callee) {
  if (m.awaited.some((other) => other.id === id)) return;
  m.awaited.push({ id, callee, at: m.now + m.settings.invitePatienceMs });
}

/** A reply says how a call stands. */
export function takeCallState(m, view, state) {
  emitCall(m, view, takeState(view, state));
  if (view.state === "waking") awaitInvite(m, view.id, view.callee);
}

/** A call is over by this device's own decision. */
export function leave(m, key, stop, error = null) {
  const view = m.calls.get(key);
  if (view) emitCall(m, view, left(view, stop, error));
}

/** Stopped or refused: no command will be answered, and no call goes on here. */
export function endAll(m, error) {
  for (const entry of m.pending.splice(0)) {
    if (entry.tag !== null) m.act({ do: "settle", tag: entry.tag, error });
  }
  m.woken = [];
  m.awaited = [];
  for (const key of [...m.calls.keys()]) leave(m, key, { reason: "failed", isLocal: true }, error);
}

/** A call that this device places, resumes or was woken for. @returns false where too many are known. */
export function begin(m, view) {
  const key = `${view.id}/${view.callee}`;
  if (m.calls.has(key)) return m.calls.get(key) === view;
  if (!makeRoom(m)) return false;
  stayForCall(m);
  m.calls.set(key, view);
  return true;
}

/** Policy at the limit: a call that nobody has heard of gives way, then the call is not taken. */
export function makeRoom(m) {
  if (m.calls.size < m.settings.callsMax) return true;
  for (const [key, view] of m.calls) {
    if (view.state === "waking" || isOver(view)) return m.calls.delete(key);
  }
  return false;
}

/** Keeps a number of ended calls, so that late deliveries of theirs are recognised. */
function remember(m, key) {
  m.endedCalls.push(key);
  while (m.endedCalls.length > m.settings.endedCallsMax) {
    const old = m.endedCalls.shift();
    if (isOver(m.calls.get(old) ?? { state: "" })) m.calls.delete(old);
  }
}

/** Takes a delivery, and acknowledges it unless one before it was lost. */
export function delivered(m, delivery) {
  if (!isAddress(delivery.call) || !Number.isSafeInteger(delivery.version)) return;
  const key = keyOf(delivery.call);
  const known = m.calls.get(key);
  if (isTakingOver(m, key, known)) return;
  // The cluster repeats the one that was lost, and then this one.
  if ((delivery.after ?? 0) > (known?.taken ?? 0)) return;
  const view = viewFor(m, key, delivery, known);
  if (!view) return;
  if (delivery.invite) stayForCall(m);
  const events = takeDelivery(view, checked(m, delivery));
  noteAck(m, { call: delivery.call, version: delivery.version }, key, !!delivery.invite, view.isUnclaimed);
  emitCall(m, view, crossing(m, view, events));
  if (delivery.answered) refuseLateWin(m, view, key);
}

function viewFor(m, key, delivery, known) {
  if (known) return delivery.invite ? ringingAgain(m, key, delivery, known) : known;
  // An invite makes this device a callee. Anything else is of a call that this device has forgotten, or that ended
  // before the device knew of it.
  const view = newView(delivery.call.id.toLowerCase(), delivery.call.callee, "callee", "waking");
  return begin(m, view) ? view : null;
}

/** A call of which a side rings here may have had this device before, or have rung here. */
function ringingAgain(m, key, delivery, view) {
  if (!beginsAnew(view, delivery)) return view;
  // It lacks the stop, unless the call is over here. If it had the call, nothing but a transfer can have made it ring
  // again; if it rang, somebody has answered.
  emitCall(m, view, left(view, { reason: isRingingHere(view) ? "answeredElsewhere" : "transferred" }));
  const again = ringsAgain(view, delivery.version);
  forget(m, key, again);
  return again;
}

/**
 * Whether an invite begins another ringing. A device that rings may lack the stop of that ringing, which the cluster gives
 * up when it rings the device again. One ringing is by the same users all the time. A device whose own call gave way to
 * this one (`merged`) gets the invite again while it has the call.
 */
function beginsAnew(view, { invite, version }) {
  if (!invite.transferredBy && !invite.secondSide && !invite.merged) return false;
  if (isRingingHere(view)) {
    const isSame =
      view.peer?.user === invite.caller?.user && view.invite?.transferredBy?.user === invite.transferredBy?.user;
    return !isSame && version > view.taken;
  }
  return (isOver(view) || (isTalking(view) && !invite.merged)) && version > Math.max(view.version, view.taken);
}

/**
 * A device answers without ringing only if it is in the call of which the invite says that it was asked there, with
 * the user who transfers. Otherwise anybody could make it pick up.
 */
function checked(m, delivery) {
  const consulted = delivery.invite?.consulted;
  if (!consulted) return delivery;
  const view = isAddress(consulted) ? m.calls.get(keyOf(consulted)) : null;
  const by = delivery.invite.transferredBy?.user;
  if (view && isTalking(view) && by && view.peer?.user === by) return delivery;
  return { ...delivery, invite: { ...delivery.invite, consulted: null } };
}

/** Names the call of this device to the same user that has given way, or an unanswered one: one of the two goes on. */
function crossing(m, view, events) {
  const merged = view.invite?.merged?.toLowerCase?.();
  const isCrossed = (other) =>
    other.role === "caller" &&
    (other.id === merged || (!isOver(other) && !isTalking(other) && other.callee === view.peer?.user));
  return events.map((event) => {
    if (event.type !== "incoming") return event;
    return { ...event, crosses: canCross(m, view) ? ([...m.calls.values()].find(isCrossed) ?? null) : null };
  });
}

/** A call that was diverted, transferred or placed by the app's server rings beside any other. */
function canCross(m, { callee, invite }) {
  return callee === m.user && !invite.divertedBy && !invite.transferredBy && !!invite.caller?.device;
}

/** A delivery before the reply to a pull is of a call that this device does not have yet. It is repeated. */
const isTakingOver = (m, key, known) =>
  !(known && hasSide(known)) && m.pending.some((entry) => entry.name === "pull" && entry.key === key);

/** An answer won although this device had given the call up: ends the call. */
export function refuseLateWin(m, view, key) {
  if (view.role !== "callee" || !isOver(view) || !view.end?.isLocal) return;
  if (m.pending.some((entry) => entry.name === "hangUp" && entry.key === key)) return;
  enqueue(m, "hangUp", { call: { callee: view.callee, id: view.id } }, key);
}
