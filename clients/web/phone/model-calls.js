// The calls of the model: what happens to them, and what the phone shows, plays and says because of them.

import { statusText } from "./words.js";

/** A call that this device begins to know. `seen` is what the client says of it. */
export function newCall(seen) {
  return {
    id: seen.id,
    callee: seen.callee,
    role: seen.role,
    state: seen.state,
    peer: null,
    video: false,
    isSecondCall: false,
    divertedBy: null,
    transferredBy: null,
    /** It crosses a call of this device, or was agreed on before: it does not ring. */
    isQuiet: false,
    /** The id of the call that is to be handed over, where this one asks somebody to take it. */
    asksFor: null,
    /** The id of the call to which this one gave way. */
    givesWayTo: null,
    /** The device that rings, as the caller is told: the first one of several. */
    ringingOn: null,
    answeredAtMs: 0,
    isMuted: false,
    hasCamera: false,
    hasRemoteVideo: false,
    isHeld: false,
    isHeldByPeer: false,
    mediaState: "new",
    transfer: null,
    /** The user has declined, cancelled or hung up, and the cluster has not confirmed it yet. */
    isLeaving: false,
    isDeclinedHere: false,
    end: null,
    endedAtMs: 0,
  };
}

/** When a call of the user was answered, wherever that was; 0: not known. */
const sinceMs = (model, id) => model.ongoing.find((entry) => entry.call.id === id)?.sinceMs ?? 0;

/** Calls that came here from another device go on counting. */
export const withDurations = (model) => ({
  ...model,
  calls: model.calls.map((call) => {
    const since = call.end ? 0 : sinceMs(model, call.id);
    return since > 0 && since !== call.answeredAtMs ? { ...call, answeredAtMs: since } : call;
  }),
});

const isSame = (id) => (call) => call.id === id;
export const findCall = (model, id) => model.calls.find(isSame(id)) ?? null;
export const isTalking = (call) => call.state === "answered" || call.state === "connected";

/** Changes one call. A status that changes is said aloud. */
function changed(model, id, change) {
  const call = findCall(model, id);
  if (!call) return model;
  const next = { ...call, ...change(call) };
  const calls = model.calls.map((other) => (other === call ? next : other));
  const [before, after] = [statusText(model, call), statusText(model, next)];
  return { ...model, calls, announcement: before === after || next.isQuiet ? model.announcement : after };
}

/** Ends of former calls go away when a new call begins. */
const added = (model, call) => ({
  ...model,
  calls: [...model.calls.filter((other) => !other.end && other.id !== call.id), call],
  announcement: call.isQuiet ? model.announcement : statusText(model, call),
});

export const callEvents = {
  /** The user calls somebody. The client does not know the call before the microphone is there. */
  dialled: (model, { id, callee, video, asksFor = null }) =>
    added(model, { ...newCall({ id, callee, role: "caller", state: "preparing" }), video, asksFor }),

  /** The client has said something about a call: `seen` is how it stands, `event` what happened. */
  call(model, { seen, event, detail }) {
    if (event === "ended") return ended(model, seen, detail);
    const known = findCall(model, seen.id);
    // One that is over for this device rings here again, or was pulled here.
    if (!known || (known.end && (event === "incoming" || isTalking(seen)))) {
      const call = { ...newCall(seen), ...seen };
      return added(model, { ...call, ...happened(model, event, detail)(call) });
    }
    return changed(model, seen.id, (call) => ({ ...seen, ...happened(model, event, detail)(call) }));
  },

  /** Something that only this device knows of a call. */
  callPart: (model, { type, id, ...part }) => changed(model, id, () => part),

  /** Two calls crossed: the screen goes on with the other one. */
  replaced(model, { from, to }) {
    const { isMuted = false, hasCamera = false } = findCall(model, from) ?? {};
    const calls = model.calls.filter((call) => call.id !== from);
    return changed({ ...model, calls }, to, () => ({ isQuiet: false, isMuted, hasCamera }));
  },

  /** The user gave up before the cluster knew of the call, or it could not be placed. */
  dropped: (model, { id }) => ({ ...model, calls: model.calls.filter((call) => call.id !== id) }),

  dismissed: (model, { id }) => ({ ...model, calls: model.calls.filter((call) => call.id !== id || !call.end) }),
};

/** The changes of an event beside the call's own state. */
const happened = (model, event, detail) => (call) => {
  switch (event) {
    case "incoming":
      return { isQuiet: detail.isQuiet };
    case "ringing":
      // The next one is named only when no other device rings any more.
      return detail.by ? { ringingOn: detail.by } : {};
    case "answered":
      return { isQuiet: false, answeredAtMs: call.answeredAtMs || sinceMs(model, call.id) || model.nowMs };
    case "moved":
      // Another device does not know what was agreed with the former one.
      return { mediaState: "new", hasRemoteVideo: false, isHeldByPeer: false };
    case "transfer":
      return { transfer: { to: detail.to, by: detail.by, reason: detail.reason } };
    default:
      return {};
  }
};

function ended(model, seen, end) {
  const call = findCall(model, seen.id);
  // It never rang here, or no longer: nothing is shown of it.
  if (!call || call.end) return { ...model, calls: model.calls.filter((other) => other.givesWayTo !== seen.id) };
  // It gave way to a call of the other side. The screen stays until that one is answered, or over.
  const isGivingWay = end.reason === "glare" && call.role === "caller" && end.survivor;
  if (isGivingWay) return changed(model, seen.id, () => ({ givesWayTo: end.survivor }));
  if (end.reason === "glare" || (call.isQuiet && !isTalking(call))) {
    return { ...model, calls: model.calls.filter((other) => other !== call && other.givesWayTo !== seen.id) };
  }
  const next = changed(model, seen.id, () => ({ ...seen, end, endedAtMs: model.nowMs, isLeaving: false }));
  const isDialogOver = next.dialog?.id === seen.id;
  return isDialogOver ? { ...next, dialog: null } : next;
}

// Values that follow from the model.

/** Calls that ring here for the user. */
export const incoming = (model) =>
  model.calls.filter((call) => call.role === "callee" && call.state === "ringing" && !call.isQuiet && !call.isLeaving);

/** The call in the middle of the screen: the one that is spoken in, then one that is dialled, held or over. */
export function mainCall(model) {
  const shown = model.calls.filter((call) => !call.isQuiet && !incoming(model).includes(call));
  return (
    shown.find((call) => isTalking(call) && !call.isHeld) ??
    shown.findLast((call) => call.role === "caller" && !call.end && !isTalking(call)) ??
    shown.find((call) => !call.end) ??
    shown.at(-1) ??
    null
  );
}

/** The other calls of this device: those that wait, and those that are just over. */
export const otherCalls = (model) => {
  const main = mainCall(model);
  const ringing = incoming(model);
  return model.calls.filter((call) => call !== main && !call.isQuiet && !ringing.includes(call));
};

/** Which sound is played: `ring`, `waiting` (it rings while the user speaks), `ringback`, or none. */
export function soundOf(model) {
  const isBusy = model.calls.some((call) => isTalking(call) && !call.isHeld);
  if (incoming(model).length > 0) return isBusy ? "waiting" : "ring";
  const dialled = model.calls.some((call) => call.role === "caller" && call.state === "ringing" && !call.isLeaving);
  return dialled && !isBusy ? "ringback" : null;
}

/** The title of the page. */
export function titleOf(model) {
  const [call] = incoming(model);
  if (call) return `☎ ${statusText(model, call)}`;
  const { unread } = model.history;
  const name = model.session.user ? `${model.session.name} – Callmesh phone` : "Callmesh phone";
  return unread > 0 ? `(${unread}) ${name}` : name;
}

/** The fields that the model keeps of a call of the client. Only an invite says whether the other side wants video. */
export function seenOf(call) {
  const { id, callee, role, state, peer, isSecondCall, divertedBy, transferredBy } = call;
  const seen = { id, callee, role, state, peer, isSecondCall, divertedBy, transferredBy };
  return call.video ? { ...seen, video: true } : seen;
}
