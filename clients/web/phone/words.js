// States in words. Pure functions of the model.

/** The name of a user: as the user's calls say it, as the contacts have it, or the id. */
export function userName(model, user, said) {
  if (said) return said;
  return model.contacts.find((contact) => contact.user === user)?.name || user || "Somebody";
}

/** `Ann`, `Ann and Bob`, `Ann, Bob and Carl`. */
export function listText(names, word = "and") {
  const [last, ...others] = [...names].reverse();
  return others.length > 0 ? `${others.reverse().join(", ")} ${word} ${last}` : (last ?? "");
}

/** Who rings when a group is called: all members but the user. Empty: the contact is no group. */
export function groupText(model, { members = [] }) {
  const others = members.filter((user) => user !== model.session.user).map((user) => userName(model, user));
  if (others.length === 0) return "";
  return others.length === 1 ? `${others[0]} rings` : `${listText(others)} ring together`;
}

const partyName = (model, party) => userName(model, party?.user, party?.name);

/** The other side of a call. */
export function peerName(model, call) {
  if (call.peer?.user) return partyName(model, call.peer);
  return userName(model, call.role === "caller" ? call.callee : "");
}

/** A device as others see it: its name, or "another device". */
export const deviceName = (party) => party?.deviceName || "another device";

const isHere = (model, party) => party?.device === model.session.device && party?.user === model.session.user;

/** Where a call is at the moment, in one sentence. */
export function statusText(model, call) {
  const name = peerName(model, call);
  if (call.isLeaving && !call.end) return "Ending the call…";
  switch (call.state) {
    case "preparing":
      return "Waiting for the microphone…";
    case "placing":
    case "placed":
      return `Calling ${name}…`;
    case "ringing":
      return call.role === "caller" ? ringingText(model, call) : incomingText(model, call);
    case "answering":
      return "Answering…";
    case "answered":
    case "connected":
      return talkingText(call, name);
    default:
      return call.end ? endText(model, call) : "The call is over.";
  }
}

/** Where it rings, as the caller sees it. */
export function ringingText(model, call) {
  const by = call.ringingOn;
  if (!by) return "Ringing…";
  const where = `on ${deviceName(by)}`;
  return by.user && by.user !== call.callee ? `Ringing at ${partyName(model, by)}, ${where}` : `Ringing ${where}`;
}

/** Who calls, as the callee sees it. */
export function incomingText(model, call) {
  const name = peerName(model, call);
  const kind = call.video ? " with video" : "";
  if (call.transferredBy) return `${partyName(model, call.transferredBy)} hands a call with ${name} over to you`;
  if (call.divertedBy) return `${name} is calling${kind} for ${userName(model, call.callee)}`;
  return `${name} is calling${kind}`;
}

function talkingText(call, name) {
  if (call.isHeld) return "On hold";
  if (call.isHeldByPeer) return `${name} has put you on hold`;
  switch (call.mediaState) {
    case "connected":
      return "In a call";
    case "disconnected":
    case "restarting":
      return "The connection is interrupted. Looking for another way…";
    case "failed":
      return "No way to the other side was found.";
    default:
      return "Connecting…";
  }
}

/** Why a call is over, and who did it where. */
export function endText(model, call) {
  const { end } = call;
  const name = peerName(model, call);
  const isCaller = call.role === "caller";
  const by = partyName(model, end.by);
  switch (end.reason) {
    case "answeredElsewhere":
      return `Answered on ${deviceName(end.by)}`;
    case "declined":
      if (call.isDeclinedHere) return "Declined here. Your other devices ring on.";
      if (isCaller) return `${end.by ? by : name} declined`;
      return isHere(model, end.by) || !end.by ? "You declined" : `Declined on ${deviceName(end.by)}`;
    case "cancelled":
      return isCaller ? "You gave up before an answer" : `${name} gave up`;
    case "unanswered":
      return isCaller ? `${name} did not answer` : `Missed call from ${name}`;
    case "busy":
      return isCaller ? `${name} is busy` : "You were busy";
    case "unreachable":
      return unreachableText(end.unreachable, name);
    case "moved":
      return `The call goes on on ${deviceName(end.by)}`;
    case "transferred":
      return end.by?.user && end.by.user !== model.session.user ? `Handed over to ${by}` : "Handed over";
    case "hungUp":
      if (!end.by) return "The call was ended";
      return end.by.user === model.session.user ? "You hung up" : `${by} hung up`;
    default:
      return failureText(end);
  }
}

function unreachableText(why, name) {
  if (why === "noDevice") return `${name} has never signed in`;
  if (why === "notWakeable") return `${name} is not signed in at the moment`;
  return `${name} cannot be reached at the moment`;
}

function failureText(end) {
  const code = end.error?.code;
  if (code === 405) return "Too many calls to this user. Try again in a minute.";
  if (code === 104) return "There is no connection. The call was not placed.";
  if (end.error?.message) return `The call failed: ${end.error.message}`;
  return end.isLocal ? "The connection was lost" : "The call failed: no media came through";
}

/** The state of a transfer that this side has begun; empty: there is none. */
export function transferText(model, call) {
  if (!call.transfer) return "";
  const { to, by, reason } = call.transfer;
  const name = userName(model, to);
  switch (reason) {
    case null:
    case undefined:
      return by ? `Ringing at ${partyName(model, by)} on ${deviceName(by)}` : `Handing over to ${name}…`;
    case "declined":
      return `${name} declined. You still have the call.`;
    case "busy":
      return `${name} is busy. You still have the call.`;
    case "unanswered":
      return `${name} did not answer. You still have the call.`;
    case "unreachable":
      return `${name} cannot be reached. You still have the call.`;
    default:
      return `${name} did not take the call. You still have it.`;
  }
}

/** Who has a call on which device. */
export function whereText(model, call) {
  if (!call.peer?.device) return "";
  return `${peerName(model, call)} on ${deviceName(call.peer)} · you on this device`;
}

/** A call of the user on another device. */
export const ongoingText = (model, entry) =>
  `You are in a call with ${userName(model, entry.user, entry.name)} on ${entry.deviceName || "another device"}`;

/** How the connection to the cluster stands; empty: all is well. */
export function sessionText({ state, error }) {
  switch (state) {
    case "connecting":
      return "Connecting…";
    case "away":
      return "No connection. Trying again…";
    case "refused":
      return error || "Signed out";
    default:
      return "";
  }
}

/** Why the session is over. */
export function refusalText({ code, message }) {
  if (code === 901) return "This phone was opened in another window. It rings there.";
  if (code === 902) return "The server gave no token.";
  return message;
}

/** Errors that people meet, in their words. */
const sentences = {
  404: "The call cannot be handed over at the moment.",
  405: "Too many calls to this user. Try again in a minute.",
  406: "There are too many calls already.",
  415: "This call has been moved too often.",
  416: "This call is being handed over already.",
  501: "The cluster gave no answer. Try again.",
};

/** Why a command failed. */
export const errorText = (error) => sentences[error?.code] ?? `That did not work: ${error?.message ?? error}`;
