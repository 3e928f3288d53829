// Performs what the machine decides: sockets, the timer, tokens, and the promises of commands.

import { Link } from "./connection.js";
import { report } from "./emitter.js";
import { CallmeshError } from "./errors.js";
import { Machine } from "./machine.js";

/** The browser's own time, chance and sockets. A test gives others. */
export const browser = {
  now: () => globalThis.performance.now(),
  random: () => Math.random(),
  setTimer: (callback, ms) => setTimeout(callback, ms),
  clearTimer: (timer) => clearTimeout(timer),
  uuid: () => globalThis.crypto.randomUUID(),
};

/** Browsers fire a timer at once that is to wait for longer than this. */
const timerMax = 2 ** 31 - 1;

export class Driver {
  #machine;
  #environment;
  #settings;
  #options;
  #listener;
  #current = null;
  #next = null;
  #timer = null;
  #timerAt = Infinity;
  #effects = [];
  #isActing = false;
  #commands = new Map();
  #lastTag = 0;

  /** @param listener `session(type, detail)` and `call(view, event)` */
  constructor(settings, options, listener) {
    this.#settings = settings;
    this.#options = options;
    this.#listener = listener;
    this.#environment = { ...browser, ...options.environment };
    this.#machine = new Machine(settings);
  }

  get machine() {
    return this.#machine;
  }

  get environment() {
    return this.#environment;
  }

  /** Sends a command. @returns a promise of the reply; it rejects with a `CallmeshError` */
  submit(name, body, key = null, view = null) {
    return new Promise((resolve, reject) => {
      const tag = ++this.#lastTag;
      this.#commands.set(tag, { resolve, reject });
      this.handle({ type: "submit", name, body, key, tag, view });
    });
  }

  /** Lets the machine handle an event, and performs what it decides. */
  handle(event) {
    const { now, random } = this.#environment;
    this.#effects.push(...this.#machine.handle(event, now(), random));
    // A listener may have sent a command: its effects follow those of the event that the listener hears.
    if (this.#isActing) return;
    this.#isActing = true;
    while (this.#effects.length > 0) {
      try {
        this.#perform(this.#effects.shift());
      } catch (error) {
        // The app gave something that cannot be sent, or its taker of signals has failed: the device goes on.
        report(error);
      }
    }
    this.#isActing = false;
    this.#arm();
  }

  #perform(effect) {
    switch (effect.do) {
      case "connect":
        this.#current?.close(3000);
        this.#current = this.#link(effect.url, "current");
        break;
      case "send":
        this.#current?.send(effect.frame);
        break;
      case "close":
        this.#current?.close(effect.code);
        this.#current = null;
        break;
      case "connectNext":
        this.#next?.close(3000);
        this.#next = this.#link(effect.url, "next");
        break;
      case "sendNext":
        this.#next?.send(effect.frame);
        break;
      case "closeNext":
        this.#next?.close(3000);
        this.#next = null;
        break;
      case "switchOver":
        this.#current?.close(3000);
        this.#current = this.#next;
        this.#next = null;
        break;
      case "token":
        this.#askForToken();
        break;
      case "settle":
        this.#settleCommand(effect);
        break;
      case "emit":
        this.#listener.session(effect.type, effect.detail);
        break;
      case "call":
        this.#listener.call(effect.view, effect.event);
        break;
    }
  }

  /** A link says which of the two it is when something happens: the next one may have become the current one. */
  #link(url, side) {
    const WebSocketClass = this.#environment.WebSocket ?? globalThis.WebSocket;
    let link = null;
    const which = () => (link === null ? side : link === this.#next ? "next" : "current");
    link = new Link(WebSocketClass, url, {
      opened: () => this.handle({ type: "opened", link: which() }),
      received: (frame) => this.handle({ type: "frame", link: which(), frame }),
      closed: (code) => {
        const link = which();
        if (link === "next") this.#next = null;
        else this.#current = null;
        this.handle({ type: "closed", link, code });
      },
    });
    return link;
  }

  #settleCommand({ tag, reply, error }) {
    const command = this.#commands.get(tag);
    this.#commands.delete(tag);
    if (error) command?.reject(error);
    else command?.resolve(reply);
  }

  async #askForToken() {
    let token = null;
    try {
      token = await this.#options.getToken();
      if (typeof token !== "string" || !token) throw new Error("getToken gave no token.");
    } catch (cause) {
      token = null;
      const error = new CallmeshError(902, String(cause?.message ?? cause));
      this.#listener.session("tokenFailed", { error });
    }
    this.handle({ type: "token", token });
  }

  /** One timer for the earliest deadline. */
  #arm() {
    const { now, setTimer, clearTimer } = this.#environment;
    const deadline = this.#machine.deadline;
    if (deadline === this.#timerAt) return;
    if (this.#timer !== null) clearTimer(this.#timer);
    this.#timer = null;
    this.#timerAt = deadline;
    if (deadline === Infinity) return;
    const ms = Math.min(Math.max(0, Math.ceil(deadline - now())), timerMax);
    this.#timer = setTimer(() => {
      this.#timer = null;
      this.#timerAt = Infinity;
      this.handle({ type: "timer" });
    }, ms);
  }
}
