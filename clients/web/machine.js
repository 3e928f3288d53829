// A device's connection and calls without I/O: events go in, effects come out. Time and chance are arguments.
//
// The machine attaches, reconnects over the next edge when its connection breaks, moves to another edge when its own
// shuts down, repeats each command until it is answered, acknowledges every delivery, and reports each event once.

import { acknowledge, ackDeadline, sendDueAcks } from "./machine-acks.js";
import { delivered, endAll, leave } from "./machine-calls.js";
import { nextCommandDeadline, replied, retransmitDue, submit } from "./machine-commands.js";
import { dropAll, expire } from "./machine-giving-up.js";
import {
  attachReplied,
  closed,
  connect,
  awaitToken,
  hurry,
  noticed,
  opened,
  suspend,
  timedOut,
  tokenCame,
  wantsToken,
} from "./machine-connection.js";
import { showHistory, showOngoing, takeRelays, wake } from "./machine-waking.js";
import { abandonMove, fireMove, nextClosed, nextOpened, nextReceived } from "./machine-move.js";
import { isRingingHere } from "./call-view.js";
import { CallmeshError } from "./errors.js";

/** How much later than asked a timer may fire before the page counts as having been frozen. */
const frozenMs = 2000;

export class Machine {
  constructor(settings) {
    this.settings = settings;
    /** stopped → connecting → attaching → attached; waiting comes between two attempts. */
    this.phase = { name: "stopped" };
    /** Calls by `id/callee`: two callees may have calls with the same id. */
    this.calls = new Map();
    this.endedCalls = [];
    /** Commands without a reply, in the order of their ids. */
    this.pending = [];
    this.lastId = 0;
    this.acks = [];
    this.heldAcks = [];
    this.acksDueAt = Infinity;
    this.user = "";
    this.device = "";
    this.edge = "";
    this.listedEdge = "";
    this.failures = 0;
    this.attachedBefore = false;
    this.attachId = 0;
    /** Attaches without a reply. One may replace this device's own session when it arrives late. */
    this.openAttaches = [];
    this.heardAt = 0;
    /** When the `ping` was sent that nothing has answered yet. */
    this.pingedAt = null;
    /** The silence, by its beginning, in which a late timer has asked once more. */
    this.askedAgainFor = -Infinity;
    this.move = null;
    this.draining = new Map();
    this.nearerNotBefore = 0;
    this.token = settings.token ?? "";
    this.isTokenRefused = false;
    this.tokenAwaitedUntil = 0;
    this.woken = [];
    /** Calls whose invite should come, and when to ask about them. */
    this.awaited = [];
    this.ongoing = { version: 0, calls: [] };
    this.history = null;
    /** Credentials for the TURN servers, as the edge gave them last. */
    this.relays = null;
    this.isHidden = false;
    /** The cluster's clock minus this machine's. */
    this.clockOffset = null;
  }

  get isAttached() {
    return this.phase.name === "attached";
  }

  /**
   * Handles one event.
   * @param event `{type, …}`; `handlers` below lists the types
   * @param now milliseconds of a clock that never goes back
   * @param random a function like `Math.random`
   * @returns the effects, to be performed in their order
   */
  handle(event, now, random) {
    this.now = now;
    this.random = random;
    this.effects = [];
    handlers[event.type](this, event);
    return this.effects;
  }

  /** Appends an effect. */
  act(effect) {
    this.effects.push(effect);
  }

  /** Tells the app something about the session. */
  tell(type, detail = {}) {
    this.effects.push({ do: "emit", type, detail });
  }

  /** When `{type: "timer"}` is due; Infinity: not before another event. */
  get deadline() {
    const next = Math.min(nextCommandDeadline(this), ringDeadline(this), inviteDeadline(this));
    switch (this.phase.name) {
      case "stopped":
        return Infinity;
      case "attached":
        return Math.min(next, pingDeadline(this), ackDeadline(this), this.move?.until ?? Infinity);
      default:
        return Math.min(next, this.phase.until);
    }
  }
}

const handlers = {
  start(m) {
    if (m.phase.name !== "stopped") return;
    const { edges, firstEdge } = m.settings;
    m.edge ||= edges[(firstEdge ?? Math.floor(m.random() * edges.length)) % edges.length];
    m.listedEdge = m.edge;
    if (m.token) connect(m);
    else awaitToken(m);
  },
  /** Ends everything here. With `detach` the device stops being rung: the user signs out. */
  stop(m, { detach }) {
    if (m.phase.name === "stopped") return;
    sendDueAcks(m, true);
    if (m.isAttached && detach) m.act({ do: "send", frame: { id: ++m.lastId, detach: {} } });
    m.act({ do: "close", code: detach ? 1000 : 3000 });
    abandonMove(m);
    m.phase = { name: "stopped" };
    endAll(m, new CallmeshError(900, "The device was stopped."));
  },
  opened: (m, { link }) => (link === "next" ? nextOpened(m) : opened(m)),
  closed: (m, { link, code }) => (link === "next" ? nextClosed(m) : closed(m, code)),
  frame(m, { link, frame }) {
    if (link === "next") return nextReceived(m, frame);
    m.heardAt = m.now;
    m.pingedAt = null;
    received(m, frame);
    acknowledge(m);
  },
  timer: (m) => fire(m),
  submit: (m, event) => submit(m, event),
  token: (m, event) => tokenCame(m, event.token ?? null),
  wake: (m, { id, callee }) => wake(m, id, callee),
  /** The page became visible, or the network changed: finds out at once whether the connection lives. */
  probe(m) {
    if (m.isAttached) sendPing(m);
    else hurry(m);
  },
  suspend: (m) => suspend(m),
  visibility(m, { isHidden }) {
    m.isHidden = isHidden;
    acknowledge(m);
  },
};

function received(m, frame) {
  if (frame.reply) {
    const isAttach = m.phase.name === "attaching" && frame.reply.id === m.attachId;
    return isAttach ? attachReplied(m, frame.reply) : replied(m, frame.reply);
  }
  if (frame.delivery) return delivered(m, frame.delivery);
  if (frame.notice) return noticed(m, frame.notice);
  if (frame.ongoing && m.isAttached) return showOngoing(m, frame.ongoing, true);
  if (frame.history && m.isAttached) return showHistory(m, frame.history);
  if (frame.relays && m.isAttached) return takeRelays(m, frame.relays);
}

function fire(m) {
  expire(m);
  if (!m.isAttached) stopRinging(m);
  askForInvites(m);
  if (m.phase.name === "stopped") return;
  if (!m.isAttached) {
    if (m.phase.until > m.now) return;
    if (m.phase.name !== "waiting") return timedOut(m);
    return wantsToken(m) ? awaitToken(m) : connect(m);
  }
  firePing(m);
  if (!m.isAttached) return;
  fireMove(m);
  sendDueAcks(m);
  retransmitDue(m);
}

const pingDeadline = (m) =>
  m.pingedAt === null ? m.heardAt + m.settings.pingAfterMs : m.pingedAt + m.settings.pingTimeoutMs;

function sendPing(m) {
  if (m.pingedAt !== null) return;
  m.pingedAt = m.now;
  m.act({ do: "send", frame: { id: ++m.lastId, ping: {} } });
}

function firePing(m) {
  const due = pingDeadline(m);
  if (m.now < due) return;
  if (m.pingedAt === null) return sendPing(m);
  if (m.now - due > frozenMs && m.askedAgainFor !== m.heardAt) {
    // The page was frozen, and what came meanwhile is not read yet. Timers of a hidden page are late each time.
    m.askedAgainFor = m.heardAt;
    m.pingedAt = null;
    return sendPing(m);
  }
  m.act({ do: "close", code: 3000 });
  closed(m, 0);
}

// A call must not ring for ever where the cluster cannot say that it is over.

const localDeadline = (m, view) =>
  isRingingHere(view) && view.deadlineMs && m.clockOffset !== null
    ? view.deadlineMs - m.clockOffset + m.settings.ringGraceMs
    : Infinity;

function ringDeadline(m) {
  let next = Infinity;
  if (m.isAttached) return next;
  for (const view of m.calls.values()) next = Math.min(next, localDeadline(m, view));
  return next;
}

function stopRinging(m) {
  for (const [key, view] of [...m.calls]) {
    if (localDeadline(m, view) > m.now) continue;
    dropAll(m, key, new CallmeshError(501, "The call rang out without a connection."));
    leave(m, key, { reason: "unanswered", missed: true, isLocal: true });
  }
}

const inviteDeadline = (m) => Math.min(Infinity, ...m.awaited.map(({ at }) => at));

function askForInvites(m) {
  const due = m.awaited.filter(({ at }) => at <= m.now);
  m.awaited = m.awaited.filter(({ at }) => at > m.now);
  for (const { id, callee } of due) {
    const isKnown = [...m.calls.values()].some((view) => view.id === id && view.state !== "waking");
    if (!isKnown) wake(m, id, callee);
  }
}
