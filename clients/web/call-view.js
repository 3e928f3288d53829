// One call as this device sees it: a pure state machine. Deliveries, replies and the device's own commands go in,
// events for the app come out. It does no I/O and reads no clock.
//
//   caller   placing → placed → ringing → answered → connected → ended
//   callee   waking → ringing → answering → answered → connected → ended, or lost from ringing and answering
//
// A call never goes back, except that it is answered anew after `moved`, and rings again after an answer that failed.

/** @returns a call that this device begins to know. */
export function newView(id, callee, role, state) {
  return {
    id,
    callee,
    role,
    state,
    /** The greatest version of a delivery that was processed, and of a call state. */
    taken: 0,
    version: 0,
    /** The greatest index of the other side's signals. A device that takes a side over counts on above it. */
    signal: 0,
    /** The numbers of the other side's newest move, and of this side's newest transfer that failed. */
    move: 0,
    transfer: 0,
    /** The version at which this device took the call over, if it did. */
    takenOverAt: 0,
    /** The version at which this device's answer won. */
    wonAt: 0,
    /** This device answered and has the call, or took it over. */
    won: false,
    /** This page did not know the call until the cluster gave it back, and its app has sent no command about it yet. */
    isUnclaimed: false,
    /** It came to be by `resume` after a restart: its answer may have been acknowledged before. */
    isResumed: false,
    isBare: false,
    peer: null,
    invite: null,
    deadlineMs: 0,
    end: null,
  };
}

export const isOver = (view) => view.state === "ended" || view.state === "lost";
export const isTalking = (view) => view.state === "answered" || view.state === "connected";
export const isRingingHere = (view) => view.state === "ringing" || view.state === "answering";
/** Whether this device has a side of the call. One that rings has none yet. */
export const hasSide = (view) => !isOver(view) && (view.won || view.role === "caller");

/** The call is to ring here again, for a transfer, although it was over for this device. */
export function ringsAgain(view, version) {
  const again = newView(view.id, view.callee, "callee", "waking");
  again.version = view.version;
  again.taken = view.taken;
  again.takenOverAt = version;
  return again;
}

/** Applies a delivery. @returns the events that are new to the app. */
export function takeDelivery(view, delivery) {
  if (delivery.version <= view.taken) return [];
  view.taken = delivery.version;
  view.version = Math.max(view.version, delivery.version);
  if (delivery.invite) return invited(view, delivery.invite);
  if (delivery.ringing) return rings(view, delivery.ringing.by);
  if (delivery.answered) return answered(view, delivery.answered);
  if (delivery.stop) return delivery.version <= view.takenOverAt ? [] : stopped(view, delivery.stop, delivery.version);
  if (delivery.signal) return fresh(view, [delivery.signal]);
  if (delivery.moved) return moved(view, delivery.moved);
  if (delivery.transfer) return transfer(view, delivery.transfer);
  if (delivery.ringsUntil) return ringsUntil(view, delivery.ringsUntil.deadlineMs);
  return [];
}

function invited(view, invite) {
  if (view.role !== "callee" || isOver(view) || isTalking(view)) return [];
  view.deadlineMs = invite.deadlineMs ?? 0;
  // A ringing device gets the invite again when its session is new. It has all candidates, also those that were sent
  // while the device was away.
  if (isRingingHere(view)) return fresh(view, invite.signals);
  view.state = "ringing";
  view.invite = invite;
  view.peer = invite.caller ?? null;
  return [{ type: "incoming" }, ...fresh(view, invite.signals)];
}

function rings(view, by) {
  if (view.role !== "caller" || isOver(view) || isTalking(view)) return [];
  view.state = "ringing";
  view.peer = by ?? null;
  return [{ type: "ringing", by: view.peer }];
}

function ringsUntil(view, deadlineMs) {
  if (!(deadlineMs > 0) || isOver(view) || isTalking(view) || view.state === "waking") return [];
  view.deadlineMs = deadlineMs;
  return [{ type: "ringsUntil", deadlineMs }];
}

function answered(view, news) {
  if (isOver(view)) return [];
  if (isTalking(view)) {
    // A resumed call was known to be answered, but not with which description.
    if (!view.isBare || !news.description) return [];
    view.isBare = false;
    return [answer(view, news), ...fresh(view, news.signals)];
  }
  view.isUnclaimed = view.state === "waking";
  view.state = "answered";
  // Among the callee's devices only the winner gets this, when it comes back, with itself as `by`.
  if (view.role === "callee") wins(view, view.version);
  else view.peer = news.by ?? null;
  return [answer(view, news), ...fresh(view, news.signals)];
}

function wins(view, version) {
  view.won = true;
  view.wonAt = version;
}

const answer = (view, news) => ({
  type: "answered",
  by: news.by ?? null,
  description: news.description ?? "",
  isHere: view.won,
});

/** The call is over for this device. `version` is that of the delivery or the state that says so. */
function stopped(view, stop, version) {
  if (isOver(view)) return [];
  // A late reply is about an earlier ringing.
  if (version && version < view.takenOverAt) return [];
  if (!view.won || ["hungUp", "failed", "moved", "transferred"].includes(stop.reason)) return left(view, stop);
  // A stop that is not newer than its side is of an earlier ringing: the device that has the call did not lose it.
  if (version <= Math.max(view.wonAt, view.takenOverAt)) return [];
  // It lacks the stop of the side, and the invite to a later ringing, which is over: only a transfer rings again.
  return left(view, { reason: "transferred" });
}

/** As `stopped`, where this device itself has decided. */
export function left(view, stop, error = null) {
  if (isOver(view)) return [];
  view.isUnclaimed = false;
  view.state = view.role === "callee" && stop.reason === "answeredElsewhere" ? "lost" : "ended";
  view.end = {
    reason: stop.reason ?? "failed",
    by: stop.by ?? null,
    missed: !!stop.missed,
    survivor: stop.survivor ?? null,
    unreachable: stop.unreachable ?? null,
    isLocal: !!stop.isLocal,
    error,
  };
  return [{ type: "ended", ...view.end }];
}

function moved(view, news) {
  if (isOver(view) || !(news.number > view.move)) return [];
  view.move = news.number;
  // A page that was loaded anew: only a device that has the call is told where the other side goes.
  const isTaken = view.state === "waking";
  if (isTaken) wins(view, view.version);
  view.isUnclaimed ||= isTaken;
  view.peer = news.to ?? null;
  // Media begin anew, and both sides report `connected` again.
  view.state = "answered";
  view.isBare = false;
  const event = { type: "moved", to: view.peer, description: news.description ?? "" };
  return isTaken ? [answer(view, {}), event] : [event];
}

function transfer(view, news) {
  if (isOver(view) || view.state === "waking" || !(news.number > view.transfer)) return [];
  if (news.reason) view.transfer = news.number;
  return [{ type: "transfer", to: news.to, by: news.by ?? null, reason: news.reason ?? null }];
}

/** The same signal may be part of an invite or an answer, and come alone as well. */
function fresh(view, signals) {
  // Nobody has heard of a call that is waking. Its invite will have them again.
  if (isOver(view) || view.state === "waking") return [];
  const events = [];
  for (const signal of Array.isArray(signals) ? signals : []) {
    if (!(signal?.index > view.signal)) continue;
    view.signal = signal.index;
    // A kind of a later version is acknowledged like the others, and of no use here.
    if (!["candidate", "description", "information"].includes(signal.kind)) continue;
    events.push({ type: "signal", kind: signal.kind, body: signal.body ?? "" });
  }
  return events;
}

/** Applies a call state that came in a reply. */
export function takeState(view, state) {
  view.version = Math.max(view.version, state.version ?? 0);
  if (isOver(view)) return [];
  if (state.deadlineMs) view.deadlineMs = state.deadlineMs;
  switch (state.phase) {
    case "ended":
      return stopped(view, state, state.version ?? 0);
    case "answered":
      return resumedAnswered(view, state);
    case "placed":
    case "ringing":
      // A callee's device rings when the invite comes, which holds more than the state.
      return view.role === "caller" && view.state === "placing" ? placed(view, state) : [];
    default:
      return stopped(view, { reason: "failed" }, state.version ?? 0);
  }
}

function placed(view, state) {
  view.state = state.phase;
  return [{ type: state.phase, by: null }];
}

/** The answer comes as a delivery, unless the page that had the call before has acknowledged it. */
function resumedAnswered(view, state) {
  if (!view.isResumed || isTalking(view)) return [];
  view.isBare = true;
  return answered(view, { by: state.by });
}

/** This device's answer was decided. */
export function takeAnswer(view, won, state, self) {
  view.version = Math.max(view.version, state.version ?? 0);
  if (isOver(view) || view.won) return [];
  if (!won) return stopped(view, { ...state, reason: state.reason ?? "answeredElsewhere" }, state.version ?? 0);
  wins(view, state.version ?? 0);
  view.state = "answered";
  // In a call that was transferred, this device has the caller's side where the callee's device is named.
  const by = state.by;
  if (by && (by.device !== self.device || by.user !== self.user)) view.role = "caller";
  return [{ type: "answered", by: by ?? null, description: "", isHere: true }];
}
