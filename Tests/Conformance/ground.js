// The ground on which a situation is played: edges, the client under test, and time.

import { Adapter } from "./adapter.js";
import { Edge } from "./edge.js";
import { StandingRules } from "./standing.js";

/** The cluster's clock at the start. */
const epochMs = 1_790_000_000_000;
const pingEveryMs = 25_000;

export class Failed extends Error {}

const turn = () => new Promise((resolve) => setImmediate(resolve));

export class Ground {
  links = [];
  attempts = [];
  lines = [];
  isVirtual = true;
  #passed = 0;
  #began = Date.now();

  constructor({ command, encoding, needs }) {
    Object.assign(this, { command, encoding, needs });
    this.user = "bob";
    this.device = "bob-phone";
    this.rules = new StandingRules(this.user);
  }

  async open(edges) {
    const makeEdge = () => new Edge(this.encoding, (link) => this.connected(link), (edge) => this.attempts.push({ edge, at: this.now }));
    this.edges = Array.from({ length: edges }, makeEdge);
    await Promise.all(this.edges.map((edge) => edge.listen()));
    this.adapter = new Adapter(this.command);
    this.adapter.onLine = (way, line) => this.note(way, line);
    const { clock, cannot = [] } = await this.adapter.ready;
    this.isVirtual = clock === "virtual";
    return this.needs.filter((need) => cannot.includes(need));
  }

  close() {
    this.adapter?.kill();
    for (const edge of this.edges ?? []) edge.close();
  }

  /** The client's time so far, in milliseconds. */
  get now() {
    return this.isVirtual ? this.#passed : Date.now() - this.#began;
  }

  get clusterMs() {
    return epochMs + Math.round(this.now);
  }

  note(way, what) {
    this.lines.push(`${(this.now / 1000).toFixed(3).padStart(9)} ${way} ${JSON.stringify(what).slice(0, 400)}`);
  }

  fail(message) {
    throw new Failed(message);
  }

  // Time.

  /** Reads what the sockets and the adapter have said. */
  async read() {
    await turn();
    await turn();
  }

  /** Waits until the client has handled all that was sent to it, and its answers have come. It lets no time pass. */
  async settle() {
    for (let round = 0; round < 2; round += 1) {
      await this.adapter.sync();
      await Promise.all(this.links.filter((link) => link.isOpen && !link.isDead).map((link) => link.ping()));
    }
    await this.adapter.sync();
    await this.read();
  }

  /** Lets the client's time pass. */
  async pass(ms, step = ms > 3000 ? 200 : 50) {
    // Frames that were sent before have come before the time passes.
    await this.settle();
    const end = this.now + ms;
    while (this.now < end) {
      const next = Math.min(step, end - this.now);
      if (this.isVirtual) {
        this.#passed += next;
        await this.adapter.advance(next);
      } else {
        await new Promise((resolve) => setTimeout(resolve, next));
      }
      await this.read();
      for (const link of this.links) {
        if (!link.isOpen || link.isDead || this.now - link.pingedAt < pingEveryMs) continue;
        link.pingedAt = this.now;
        await link.ping();
      }
    }
    await this.settle();
  }

  /** Lets time pass until `find` gives something. */
  async until(find, within, what) {
    await this.settle();
    const end = this.now + within;
    for (;;) {
      const found = find();
      if (found) return found;
      if (this.now >= end) return this.fail(`${what} within ${within} ms`);
      await this.pass(Math.min(within > 3000 ? 200 : 50, end - this.now));
    }
  }

  // The client's connections.

  connected(link) {
    Object.assign(link, { inFlight: new Map(), frames: [], acks: [], openedAt: this.now, pingedAt: this.now, isTaken: false });
    this.links.push(link);
    this.rules.connected(link);
    this.note("--", { connected: this.edges.indexOf(link.edge) + 1 });
    link.onProblem = (problem) => this.rules.problems.push(problem);
    link.onClose = () => this.note("--", { closed: link.closedWith });
    link.onFrame = (opcode, bytes) => {
      const frame = this.rules.read(link, opcode, bytes, this.now);
      if (frame) this.received(link, frame);
    };
  }

  received(link, frame) {
    this.note("->", frame);
    if (frame.ack) link.acks.push(...(frame.ack.items ?? []));
    else if (!frame.ping) link.frames.push(frame);
    else if (!link.isDead) this.reply(link, frame, { done: {} });
  }

  /** Waits for the client's next connection. @param edge the one that it must be to */
  async connects({ within = 2000, edge = null } = {}) {
    const link = await this.until(() => this.links.find((link) => !link.isTaken), within, "the client does not connect");
    link.isTaken = true;
    if (edge && link.edge !== edge) this.fail("the client connects to another edge");
    return link;
  }

  /** The client makes no connection in this time. */
  async staysAway(ms) {
    const before = this.attempts.length;
    await this.pass(ms);
    if (this.attempts.length > before) this.fail(`the client tries to connect, ${Math.round(this.attempts[before].at)} ms after the start`);
  }
}
