// The effects of replies to commands on calls.

import { emitCall, leaving, makeRoom, refuseLateWin, takeCallState } from "./machine-calls.js";
import { enqueue } from "./machine-commands.js";
import { answerFailed, dropAll } from "./machine-giving-up.js";
import { stayForCall } from "./machine-nearer.js";
import { hasSide, isOver, isRingingHere, left, newView, takeAnswer } from "./call-view.js";

/** Takes the reply to a command; `error` is set where the reply is one. */
export function takeReply(m, entry, reply, error) {
  if (entry.name === "pull") {
    if (reply.answer?.won) takeOver(m, entry, reply.answer.call);
    return;
  }
  const view = m.calls.get(entry.key);
  hangUpWithdrawn(m, entry, view, reply.call);
  if (!view) return;
  if (error) return refused(m, entry, view, error);
  if (reply.answer) {
    emitCall(m, view, takeAnswer(view, !!reply.answer.won, reply.answer.call ?? {}, m));
    if (reply.answer.won) refuseLateWin(m, view, entry.key);
  } else if (reply.call) {
    takeCallState(m, view, reply.call);
  } else if (reply.done && entry.name === "connected") {
    // After a move the device has to report anew.
    if (view.state !== "answered" || entry.move !== view.move) return;
    view.state = "connected";
    emitCall(m, view, [{ type: "connected" }]);
  }
}

/** The cancel of a call that was given up came too late: hangs up on whoever answered. */
function hangUpWithdrawn(m, entry, view, state) {
  if (entry.name !== "cancel" || state?.phase !== "answered" || (view && !isOver(view))) return;
  enqueue(m, "hangUp", { call: entry.body.call }, entry.key);
}

function refused(m, entry, view, error) {
  const isGone = error.code === 400 || (error.code === 402 && entry.name === "resume");
  if (entry.name === "place") {
    if (view.state !== "placing" && !isOver(view)) {
      // It was to resume a live call after a reconnect.
      return enqueue(m, "resume", { call: entry.body.call }, entry.key);
    }
    emitCall(m, view, left(view, { reason: "failed" }, error));
    dropAll(m, entry.key, error);
  } else if (isGone || (entry.name === "query" && view.state === "waking")) {
    emitCall(m, view, left(view, { reason: leaving[entry.name] ?? "failed", isLocal: true }, error));
  } else if (entry.name === "answer") {
    answerFailed(m, view);
  }
}

/** This device has a call that another one of its user had. */
function takeOver(m, entry, state) {
  const known = m.calls.get(entry.key);
  if (known && hasSide(known)) {
    // It had lost the call without knowing it: the stop of that is out of date.
    known.takenOverAt = Math.max(known.takenOverAt, state.version ?? 0);
    return;
  }
  const { id, callee } = entry.body.call;
  const isCallees = state.by?.device === m.device && state.by?.user === m.user;
  const view = newView(id, callee, isCallees ? "callee" : "caller", "answered");
  view.won = true;
  view.peer = isCallees ? null : (state.by ?? null);
  view.version = state.version ?? 0;
  view.takenOverAt = view.version;
  view.taken = known?.taken ?? 0;
  if (known && isRingingHere(known)) emitCall(m, known, left(known, { reason: "moved" }));
  m.endedCalls = m.endedCalls.filter((other) => other !== entry.key);
  // At the limit it is taken all the same: the cluster says that this device has it.
  makeRoom(m);
  m.calls.set(entry.key, view);
  stayForCall(m);
  emitCall(m, view, [{ type: "answered", by: state.by ?? null, description: "", isHere: true }]);
}

/** Attached again: calls that this device placed get their deliveries here from now on. */
export function resumeCalls(m) {
  for (const [key, view] of m.calls) {
    if (view.role !== "caller" || isOver(view)) continue;
    // An unanswered `place` resumes the call by itself.
    if (m.pending.some((entry) => entry.key === key && ["place", "resume"].includes(entry.name))) continue;
    enqueue(m, "resume", { call: { callee: view.callee, id: view.id } }, key, { isFirst: true });
  }
}
