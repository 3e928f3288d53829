// Moving from an edge that shuts down, or to a nearer one: the device attaches to another edge while the former
// connection still serves, so that it can be rung at every moment.
//
// A move goes waiting → connecting → attaching, and ends when the next connection is attached.

import { CallmeshError, isFinalForAttach } from "./errors.js";
import { delivered } from "./machine-calls.js";
import { acknowledge } from "./machine-acks.js";
import { askForToken, attached, attachFrame, backoff, mayRenew, wait } from "./machine-connection.js";
import { mayMoveNearer } from "./machine-nearer.js";

export function noteDraining(m, edge) {
  m.draining.set(edge, m.now + m.settings.drainingAvoidedMs);
  for (const [other, until] of m.draining) if (until <= m.now) m.draining.delete(other);
}

/**
 * The next edge of the list that is not shutting down. After a failure it is simply the next one: an edge may have
 * restarted meanwhile, and the others may be in trouble.
 */
export function edgeAfter(m, edge) {
  const { edges } = m.settings;
  // Behind a nearer edge comes the one that the device left for it.
  const index = edges.includes(edge) ? edges.indexOf(edge) : edges.indexOf(m.listedEdge) - 1;
  for (let step = 1; m.failures === 0 && step <= edges.length; step += 1) {
    const candidate = edges[(index + step + edges.length) % edges.length];
    if (!(m.draining.get(candidate) > m.now)) return candidate;
  }
  return edges[(index + 1 + edges.length) % edges.length];
}

/** Begins to move, or brings a move forward. With its hint the edge spreads its devices over time. */
export function beginMove(m, hintMs) {
  if (!m.isAttached) return;
  const until = m.now + hintMs + (m.random() * hintMs) / 8;
  if (m.move?.isNearer && m.move.name === "waiting") m.move = null;
  if (!m.move) {
    m.move = { name: "waiting", edge: edgeAfter(m, m.edge), until, id: 0, failures: 0, isNearer: false };
    return;
  }
  m.move.isNearer = false;
  // After a failure the wait is not cut short: the other edge may be in trouble.
  if (m.move.name === "waiting" && m.move.failures === 0) m.move.until = Math.min(m.move.until, until);
}

/** Takes the move's next step if it is due. */
export function fireMove(m) {
  const move = m.move;
  if (!move || move.until > m.now) return;
  if (move.name !== "waiting") {
    m.act({ do: "closeNext" });
    return moveFailed(m);
  }
  if (move.isNearer && !mayMoveNearer(m)) return;
  move.name = "connecting";
  move.until = m.now + m.settings.attachTimeoutMs;
  m.act({ do: "connectNext", url: move.edge });
}

export function nextOpened(m) {
  if (m.move?.name !== "connecting") return;
  const frame = attachFrame(m);
  m.move.id = frame.id;
  m.move.name = "attaching";
  m.move.until = m.now + m.settings.attachTimeoutMs;
  m.act({ do: "sendNext", frame });
}

export function nextClosed(m) {
  if (m.move && m.move.name !== "waiting") moveFailed(m);
}

export function nextReceived(m, frame) {
  const move = m.move;
  if (move?.name !== "attaching") return;
  if (frame.delivery) {
    // The reply to the attach may come behind the first deliveries. They are acknowledged where they were taken.
    delivered(m, frame.delivery);
    return acknowledge(m);
  }
  if (frame.reply?.id === move.id) {
    if (frame.reply.attached) {
      takeOverLink(m);
      return attached(m, frame.reply.attached, move.id);
    }
    m.act({ do: "closeNext" });
    return nextRefused(m, CallmeshError.from(frame.reply.error));
  }
  if (frame.notice) {
    m.act({ do: "closeNext" });
    noteDraining(m, move.edge);
    moveFailed(m);
  }
}

function nextRefused(m, error) {
  if (error.code === 502) noteDraining(m, m.move.edge);
  if (!isFinalForAttach(error.code)) return moveFailed(m);
  // The present session goes on. The app learns of the refusal when it ends.
  m.move = null;
  if (mayRenew(m, error)) askForToken(m);
}

/** The next connection becomes the current one. */
function takeOverLink(m) {
  m.edge = m.move.edge;
  m.move = null;
  m.act({ do: "switchOver" });
}

/** The other edge does not take the device: tries the one behind it after a wait. */
function moveFailed(m) {
  const move = m.move;
  if (move.isNearer) {
    m.move = null;
    return;
  }
  move.until = m.now + backoff(m, move.failures);
  move.failures += 1;
  move.edge = edgeAfter(m, move.edge);
  move.name = "waiting";
}

/** Makes the next connection the current one although its attach is unanswered. */
export function switchEarly(m) {
  if (m.move?.name !== "attaching") return false;
  m.phase = { name: "attaching", until: m.move.until };
  m.attachId = m.move.id;
  takeOverLink(m);
  return true;
}

/** The former connection broke before the move was complete. */
export function switchAfterBreak(m) {
  const move = m.move;
  if (switchEarly(m)) return m.tell("detached", { retryInMs: 0, code: 0, error: null });
  if (move.name === "connecting") {
    m.phase = { name: "connecting", until: move.until };
    takeOverLink(m);
    return m.tell("detached", { retryInMs: 0, code: 0, error: null });
  }
  m.move = null;
  if (move.failures === 0) return wait(m);
  m.edge = move.edge;
  m.phase = { name: "waiting", until: move.until };
  m.tell("detached", { retryInMs: move.until - m.now, code: 0, error: null });
}

export function abandonMove(m) {
  if (m.move && m.move.name !== "waiting") m.act({ do: "closeNext" });
  m.move = null;
}
