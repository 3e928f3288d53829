// Where a situation is played: what the edge says, and what the client sends and shows. `t` in a situation is a `Stage`.

import { isDeepStrictEqual } from "node:util";
import { Ground } from "./ground.js";
import { commandOf } from "./standing.js";

/** How long a fact is waited for in real time before it counts as missing. */
const patienceMs = 5000;

/** The names that `shows` reads. `failed` and `result` are read only by name, since a client may fail what the cluster ended. */
const mayBeUnread = new Set(["attached", "detached", "result", "failed", "needsToken", "notice", "ongoing", "history", "relays", "ringing"]);

export class Stage extends Ground {
  #unread = [];
  #versions = new Map();

  /** Starts the client. @param options of the adapter's `start` */
  start(options = {}) {
    const { user, device } = this;
    const edges = this.edges.map(({ address }) => address);
    this.adapter.tell("start", { user, device, deviceName: "Bob's phone", token: "token-1", edges, encoding: this.encoding, renews: true, ...options });
  }

  /** Waits for the attach of a connection, and answers it. @returns the connection */
  async attaches({ info = {}, ...options } = {}) {
    const link = await this.connects(options);
    link.attach = (await this.next(link, "attach")).attach;
    const attach = { id: link.attachId };
    this.reply(link, attach, { attached: { ...this.sessionInfo(), ...info } });
    await this.settle();
    return link;
  }

  sessionInfo() {
    return { session: `51a7-${this.links.length}`, user: this.user, device: this.device, pingSeconds: 25, serverTimeMs: this.clusterMs };
  }

  /** Starts the client and attaches it. @returns the connection */
  async attached(options = {}) {
    this.start(options);
    return this.attaches();
  }

  // Frames.

  /** The next command on this connection, which must be of this name. */
  async next(link, name, { within = 1000 } = {}) {
    const find = () => link.frames.shift() ?? (link.isOpen ? null : { closed: true });
    const frame = await this.until(find, within, `the client does not send ${name}`);
    if (!(name in frame)) this.fail(`${JSON.stringify(frame).slice(0, 300)} where ${name} was expected`);
    return frame;
  }

  /** Takes the commands that have come and are not read. */
  async commands(link) {
    await this.settle();
    return link.frames.splice(0);
  }

  /** The client sends no command. */
  async quiet(link) {
    const frames = await this.commands(link);
    if (frames.length > 0) this.fail(`the client sends ${JSON.stringify(frames[0]).slice(0, 300)}`);
  }

  send(link, frame) {
    this.note("<-", frame);
    link.send(frame);
  }

  reply(link, { id }, what) {
    this.rules.replied(link, { id, ...what });
    this.send(link, { reply: { id, ...what } });
  }

  refuse(link, frame, code, more = {}) {
    this.reply(link, frame, { error: { code, name: `error${code}`, message: "A test.", ...more } });
  }

  /** Replies with a call state. */
  state(link, frame, phase, more = {}) {
    const { call } = frame[commandOf(frame)];
    const address = { callee: call.callee || this.user, id: call.id };
    const version = this.#versions.get(address.id.toLowerCase()) ?? 1_048_576;
    this.reply(link, frame, { call: { call: address, phase, version, atMs: this.clusterMs, ...more } });
  }

  /** Delivers an event of a call. @returns the version */
  deliver(link, call, what, { version = this.version(call.id), mustNotAck = false, ...more } = {}) {
    const delivery = { call, version, atMs: this.clusterMs, ...more, ...what };
    this.rules.delivered(link, delivery, this.now, mustNotAck);
    this.send(link, { delivery });
    return version;
  }

  /** The next version of a call. */
  version(id) {
    const next = (this.#versions.get(id) ?? 1_048_576) + 1;
    this.#versions.set(id, next);
    return next;
  }

  // Things that the client shows.

  /** The client's user, or its app, wants something. */
  async does(name, body = {}) {
    this.adapter.tell(name, body);
    await this.settle();
  }

  #collect() {
    for (const show of this.adapter.shows.splice(0)) {
      this.rules.shown(show);
      this.#unread.push(show);
    }
  }

  /** Waits until the client shows this. @param fields members that it must have @returns it */
  async shows(name, fields = {}, { within = 1000 } = {}) {
    const show = await this.until(() => this.#take(name, fields), within, `the client does not show ${name} ${JSON.stringify(fields)}`);
    for (const [key, value] of Object.entries(fields)) {
      if (isDeepStrictEqual(show[key], value)) continue;
      this.fail(`the client shows ${name} with ${key}: ${JSON.stringify(show[key])} instead of ${JSON.stringify(value)}`);
    }
    return show;
  }

  #take(name, { call }) {
    this.#collect();
    const index = this.#unread.findIndex((show) => show.name === name && (!call || show.call === call));
    return index < 0 ? null : this.#unread.splice(index, 1)[0];
  }

  /** The client may have shown this; it is read. @returns whether it has */
  async mayShow(name, fields = {}) {
    await this.settle();
    return this.#take(name, fields) !== null;
  }

  /** The client has shown nothing of this name. */
  async showsNo(name) {
    await this.settle();
    this.#collect();
    const show = this.#unread.find((show) => show.name === name);
    if (show) this.fail(`the client shows ${JSON.stringify(show)}`);
  }

  /** The end of a situation: all deliveries are acknowledged, nothing is shown or sent that nobody expected. */
  async finish() {
    await this.pass(250);
    this.#collect();
    const show = this.#unread.find(({ name }) => !mayBeUnread.has(name));
    if (show) this.fail(`the client shows ${JSON.stringify(show).slice(0, 300)}, which is not so`);
    for (const link of this.links) {
      if (link.isOpen && link.frames.length > 0) this.fail(`the client sends ${JSON.stringify(link.frames[0]).slice(0, 300)}, for which there is no reason`);
    }
    this.rules.checkAcks();
  }

  /** Waits in real time for something that needs none of the client's. */
  async soon(isSo, what) {
    const end = Date.now() + patienceMs;
    while (!isSo()) {
      if (Date.now() > end) this.fail(what);
      await this.settle();
    }
  }
}
