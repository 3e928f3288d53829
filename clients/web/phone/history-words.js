// Ended calls in words. Pure functions.

import { durationText } from "./times.js";
import { listText, userName } from "./words.js";

/** The outcome of a call of the history. */
export function entryText(model, entry) {
  const parts = [outcome(model, entry)];
  if (entry.answeredMs) parts.push(durationText(entry.endedMs - entry.answeredMs));
  if (entry.missed && entry.answeredBy) {
    parts.push(`${userName(model, entry.answeredBy)} answered`);
  } else if (entry.wentTo?.length > 0 && !entry.answeredBy) {
    parts.push(`went on to ${listText(entry.wentTo.map((user) => userName(model, user)))}`);
  }
  if (entry.divertedBy && !entry.placed) parts.push(`by way of ${userName(model, entry.divertedBy)}`);
  return parts.join(", ");
}

function outcome(model, entry) {
  const kind = entry.video ? "video call" : "call";
  if (entry.missed) return `Missed ${kind}`;
  const device = entry.deviceName ? ` on ${entry.deviceName}` : "";
  if (entry.answeredBy) return `${userName(model, entry.answeredBy)} answered`;
  if (entry.reason === "transferred") return "Handed over";
  if (entry.answeredMs) return entry.placed ? `Outgoing ${kind}${device}` : `Answered${device}`;
  return entry.placed ? vain(model, entry) : declined(entry);
}

/** A call that the user placed in vain. */
function vain(model, entry) {
  const name = userName(model, entry.user, entry.name);
  switch (entry.reason) {
    case "declined":
      return `${name} declined`;
    case "busy":
      return `${name} was busy`;
    case "unanswered":
      return `${name} did not answer`;
    case "unreachable":
      return `${name} could not be reached`;
    case "cancelled":
      return "You gave up before an answer";
    default:
      return "The call failed";
  }
}

const declined = (entry) => (entry.reason === "failed" ? "The call failed" : "You declined");
