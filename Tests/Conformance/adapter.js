// The client under test: a child process that is driven by lines of JSON, and says in lines of JSON what it shows.

import { spawn } from "node:child_process";
import { createInterface } from "node:readline";

/** How long an adapter may take for anything that needs no time of the protocol's. */
const patienceMs = 20_000;

export class Adapter {
  /** Everything that the client has shown and no judgement has read: `{name, …}`. */
  shows = [];
  onLine = () => {};
  #child;
  #answers = new Map();
  #lastNumber = 0;
  #exit = null;
  #errors = "";

  constructor(command) {
    this.#child = spawn(command[0], command.slice(1), { stdio: ["pipe", "pipe", "pipe"] });
    this.#child.on("error", (error) => this.#ended(error.message));
    this.#child.on("exit", (code, signal) => this.#ended(`it exited with ${signal ?? code}`));
    this.#child.stdin.on("error", () => {});
    this.#child.stderr.on("data", (data) => (this.#errors = (this.#errors + data).slice(-2000)));
    createInterface({ input: this.#child.stdout }).on("line", (line) => this.#read(line));
    this.ready = this.#answer("ready");
  }

  /** Its output to stderr, for a report. */
  get errors() {
    return this.#errors;
  }

  /** Lets the client's user, or its machine, do something. */
  tell(name, body = {}) {
    this.onLine(">>", { [name]: body });
    this.#child.stdin.write(`${JSON.stringify({ [name]: body })}\n`);
  }

  /** Waits until the client has done all that it was told, and what follows from it without delay. */
  sync() {
    return this.#numbered("sync", {});
  }

  /** Lets the client's time pass, if it is virtual. */
  advance(ms) {
    return this.#numbered("advance", { ms });
  }

  kill() {
    this.#exit ??= "it was ended";
    this.#child.kill();
  }

  #numbered(name, body) {
    const n = ++this.#lastNumber;
    const answer = this.#answer(n);
    this.#child.stdin.write(`${JSON.stringify({ [name]: { ...body, n } })}\n`);
    return answer;
  }

  #answer(key) {
    if (this.#exit) return Promise.reject(new Error(`The client is gone: ${this.#exit}`));
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error(`The client does not answer to ${key}.`)), patienceMs);
      this.#answers.set(key, { resolve: (value) => (clearTimeout(timer), resolve(value)), reject, timer });
    });
  }

  #read(line) {
    let message;
    try {
      message = JSON.parse(line);
    } catch {
      return this.#ended(`its line is no JSON: ${line.slice(0, 200)}`);
    }
    const [name, body] = Object.entries(message)[0] ?? ["", {}];
    if (name === "synced" || name === "ready") return this.#resolve(name === "ready" ? "ready" : body.n, body);
    this.onLine("<<", message);
    this.shows.push({ name, ...body });
  }

  #resolve(key, value) {
    this.#answers.get(key)?.resolve(value);
    this.#answers.delete(key);
  }

  #ended(reason) {
    this.#exit ??= reason;
    for (const { reject, timer } of this.#answers.values()) {
      clearTimeout(timer);
      reject(new Error(`The client is gone: ${reason}. ${this.#errors}`));
    }
    this.#answers.clear();
  }
}
