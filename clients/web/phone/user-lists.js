import { tomorrowMorning } from "./times.js";

/** The user's history and rules, which are the same on all devices. */
export class UserLists {
  #device;
  #store;
  #isLoading = false;
  #isStale = false;
  #windows = globalThis.BroadcastChannel ? new BroadcastChannel("callmesh-phone-rules") : null;

  constructor(device, store) {
    this.#device = device;
    this.#store = store;
    device.on("history", ({ cursor, unread }) => {
      this.#store.dispatch({ type: "historyState", unread });
      if (cursor !== this.#store.model.history.cursor) void this.loadHistory();
    });
    if (!this.#windows) return;
    // A failure does no harm: the window asks again when it is looked at.
    this.#windows.onmessage = ({ data }) => data === device.user && this.loadRules().catch(() => {});
  }

  async load() {
    await Promise.all([this.loadHistory(), this.loadRules()]);
  }

  /** Gets the newest calls. What changes meanwhile is asked for behind it. */
  async loadHistory() {
    this.#isStale = this.#isLoading;
    if (this.#isLoading) return;
    this.#isLoading = true;
    try {
      do {
        this.#isStale = false;
        const page = await this.#device.history({ limit: 30 });
        this.#store.dispatch({ type: "history", page, isOlder: false });
      } while (this.#isStale);
    } catch (error) {
      // 202: the operator has not switched histories on.
      if (error.code === 202) this.#store.dispatch({ type: "historyOff" });
    } finally {
      this.#isLoading = false;
    }
  }

  async loadOlder() {
    const { next } = this.#store.model.history;
    if (!next) return;
    const page = await this.#device.history({ before: next, limit: 30 });
    this.#store.dispatch({ type: "history", page, isOlder: true });
  }

  /** The user has read all that the page shows. */
  async markRead() {
    const [newest] = this.#store.model.history.entries;
    if (!newest) return;
    const { unread } = await this.#device.markHistoryRead(newest.cursor);
    this.#store.dispatch({ type: "historyState", unread });
  }

  /** No device hears from the cluster that the rules were changed on another one. Windows of one browser tell each other. */
  async loadRules() {
    this.#store.dispatch({ type: "rules", rules: await this.#device.rules() });
  }

  /**
   * Switches "do not disturb", and keeps the user's other rules.
   * @param until `off`, `hour`, `morning` or `on`
   */
  async disturb(until) {
    const now = this.#now;
    const untilMs = { hour: now + 3_600_000, morning: tomorrowMorning(now) }[until];
    await this.#changeRules(({ doNotDisturb: former, ...rules }) => {
      if (until !== "off") {
        rules.doNotDisturb = untilMs ? { untilMs: Math.round(untilMs) } : {};
        if (former?.except) rules.doNotDisturb.except = former.except;
      }
      return rules;
    });
  }

  /** Replaces the rules for forwarding, and keeps the user's other rules. Those that are undefined are off. */
  async forward(forwards) {
    await this.#changeRules((rules) => ({ ...rules, ...forwards }));
  }

  async #changeRules(change) {
    const { changedAtMs, ...rules } = await this.#device.rules();
    // The cluster keeps a time that is over, and takes none.
    if (rules.doNotDisturb?.untilMs <= this.#now) delete rules.doNotDisturb;
    this.#store.dispatch({ type: "rules", rules: await this.#device.setRules(change(rules)) });
    this.#windows?.postMessage(this.#device.user);
  }

  get #now() {
    return this.#device.clusterTime ?? Date.now();
  }

  /** Listens to no other window any more. */
  close() {
    this.#windows?.close();
    this.#windows = null;
  }
}
