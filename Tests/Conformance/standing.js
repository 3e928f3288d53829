// Rules that hold in every situation: those of docs/device-protocol.md that no client may break, whatever happens.

import { check } from "./schema.js";

const commandsInFlightMax = 64;
/** Rule 1. The stage lets time pass in steps, so an acknowledgement is seen a step late. */
const ackWithinMs = 200 + 60;

/** Commands that acknowledge the invite of their call. */
const acknowledgesInvite = ["alerting", "answer", "decline", "busy"];
const signals = ["description", "candidate", "information"];
const isUncounted = (name) => ["ping", "ack", "detach"].includes(name);
/** Refusals after which a client sends the same command once more by itself. */
const asksForRetry = [107, 500, 501, 502, 503];

export const commandOf = (frame) => Object.keys(frame).find((key) => key !== "id") ?? "";
const idOf = (call) => call?.id?.toLowerCase() ?? "";
/** The same content gives the same text, whatever the order of members. */
const canonical = (value) =>
  JSON.stringify(value, (_, inner) =>
    inner && typeof inner === "object" && !Array.isArray(inner) ? Object.fromEntries(Object.entries(inner).sort()) : inner,
  );

export class StandingRules {
  problems = [];
  #sent = new Map();
  #newestSignals = new Map();
  #places = new Map();
  #deliveries = [];
  #ended = new Set();
  #ringing = new Set();

  constructor(user) {
    this.user = user;
  }

  #wrong(problem) {
    if (!this.problems.includes(problem)) this.problems.push(problem);
  }

  /** A connection was upgraded. */
  connected({ request, encoding }) {
    if (!request.offered.includes(encoding.subprotocol)) this.#wrong(`the upgrade does not offer ${encoding.subprotocol}`);
    if (request.version !== "13") this.#wrong("the upgrade is not of WebSocket version 13");
    if (request.path.split("?")[0] !== "/v1/connect") this.#wrong(`the upgrade is to ${request.path}`);
  }

  /** Reads a message of the client. @returns the frame; null: it is none */
  read(link, opcode, bytes, now) {
    const { encoding } = link;
    if (opcode !== encoding.opcode) this.#wrong("a frame is of the other kind (text, binary) than the subprotocol's");
    if (bytes.length > (link.isAttached ? encoding.frameBytesMax : 32_768)) this.#wrong(`a frame has ${bytes.length} bytes`);
    let frame;
    try {
      frame = encoding.decode(bytes);
    } catch (error) {
      this.#wrong(`a frame cannot be read: ${error.message}`);
      return null;
    }
    for (const problem of check(frame, "ClientFrame")) this.#wrong(problem);
    const name = commandOf(frame);
    if (!name) this.#wrong("a frame has no command");
    else this.#order(link, name, frame);
    if (name === "ack") this.#acked(link, frame.ack.items, now);
    else this.#command(link, name, frame, now);
    return frame;
  }

  #order(link, name) {
    if (!link.isAttached && !["attach", "detach"].includes(name)) this.#wrong(`${name} is sent before the attach is answered`);
    if (link.attachId && name === "attach") this.#wrong("a second attach is sent on a connection");
  }

  #command(link, name, frame, now) {
    const { id } = frame;
    if (!(id >= 1)) return this.#wrong(`${name} has no id`);
    const text = canonical(frame);
    const former = this.#sent.get(id);
    if (former !== undefined && former !== text) this.#wrong(`the id ${id} is used for two commands: ${former} and ${text}`);
    this.#sent.set(id, text);
    if (name === "attach") link.attachId = id;
    if (!isUncounted(name)) link.inFlight.set(id, name);
    if (link.inFlight.size > commandsInFlightMax) this.#wrong(`${link.inFlight.size} commands wait for their replies`);
    if (signals.includes(name) && former === undefined) this.#signal(id, idOf(frame[name].call));
    this.#ofCall(link, name, frame[name].call, now);
  }

  /** Signals of a call reach the other side in the order of their ids. */
  #signal(id, call) {
    const newest = this.#newestSignals.get(call) ?? 0;
    if (id < newest) this.#wrong(`the signal ${id} is sent after ${newest}`);
    this.#newestSignals.set(call, id);
  }

  #ofCall(link, name, call, now) {
    if (!call) return;
    const id = idOf(call);
    if (name === "place") this.#places.set(id, this.#places.get(id) ?? "waits");
    else if (this.#places.get(id) === "waits" && name !== "cancel") {
      this.#wrong(`${name} is sent before the place of its call is answered`);
    }
    if (!acknowledgesInvite.includes(name)) return;
    for (const delivery of this.#deliveries) {
      if (delivery.isInvite && delivery.id === id && delivery.link === link) delivery.ackedAt ??= now;
    }
  }

  /** The edge answers a command. */
  replied(link, reply) {
    const text = this.#sent.get(reply.id);
    link.inFlight.delete(reply.id);
    if (reply.attached) link.isAttached = true;
    // The answer to a cancel settles the place as well.
    const { place, cancel } = text ? JSON.parse(text) : {};
    const isSettled = !asksForRetry.includes(reply.error?.code);
    if (isSettled && (place || cancel)) this.#places.set(idOf((place ?? cancel).call), "answered");
  }

  /** The edge delivers something. `mustNot`: it may not be acknowledged. */
  delivered(link, { call, version, invite }, now, mustNot) {
    const { callee } = call;
    this.#deliveries.push({ link, id: idOf(call), callee, version, isInvite: !!invite, at: now, ackedAt: null, mustNot });
  }

  /** The edge shows the user's ongoing calls, which are acknowledged like deliveries. */
  ongoing(link, version, now, mustNot) {
    this.#deliveries.push({ link, id: "", callee: "", version, isInvite: false, at: now, ackedAt: null, mustNot });
  }

  #acked(link, items, now) {
    if (!Array.isArray(items) || items.length < 1 || items.length > 256) return this.#wrong("an ack has not 1 to 256 items");
    for (const { call, version } of items) {
      const isOne = (delivery) =>
        delivery.id === idOf(call) && delivery.version === version && (!call?.callee ? this.#isOwn(delivery) : delivery.callee === call.callee);
      const found = this.#deliveries.filter(isOne);
      if (found.length === 0) this.#wrong(`what was not delivered is acknowledged: ${JSON.stringify({ call, version })}`);
      if (found.some(({ mustNot }) => mustNot)) this.#wrong(`version ${version} is acknowledged, although one before it is missing or it is out of date`);
      for (const delivery of found) if (delivery.link === link) delivery.ackedAt ??= now;
    }
  }

  #isOwn = ({ callee }) => callee === "" || callee === this.user;

  /** Whether all that was delivered on connections that are open is acknowledged, and was in time. */
  checkAcks() {
    for (const { link, id, version, at, ackedAt, mustNot } of this.#deliveries) {
      const what = `version ${version} of ${id || "the ongoing calls"}`;
      if (mustNot) continue;
      if (ackedAt === null && link.isOpen && link.isAttached) this.#wrong(`${what} is not acknowledged`);
      if (ackedAt !== null && ackedAt - at > ackWithinMs) this.#wrong(`${what} is acknowledged after ${ackedAt - at} ms`);
    }
  }

  /** The gap was closed, or the state came anew: from now on this version is to be acknowledged. */
  forget(version) {
    this.#deliveries = this.#deliveries.filter((delivery) => delivery.version !== version);
  }

  /** The client shows something of a call. */
  shown({ name, call, transferredBy, secondSide, merged }) {
    if (!call || name === "result" || name === "failed") return;
    const id = call.toLowerCase();
    if (name === "stopped") {
      if (this.#ended.has(id)) this.#wrong(`the end of ${id} is shown twice`);
      this.#ended.add(id);
      this.#ringing.delete(id);
    } else if (name === "rings") {
      const isAnew = transferredBy || secondSide || merged;
      if (this.#ringing.has(id) || (this.#ended.has(id) && !isAnew)) this.#wrong(`${id} rings twice`);
      this.#ringing.add(id);
      this.#ended.delete(id);
    } else if (name === "won") {
      this.#ended.delete(id);
    } else if (this.#ended.has(id)) {
      this.#wrong(`${name} is shown after the end of ${id}`);
    }
  }
}
