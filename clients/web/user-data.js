// Commands about the user rather than a call: registration, history and rules.

import { Emitter } from "./emitter.js";
import { CallmeshError } from "./errors.js";

/** The part of a device that is about its user. It needs `request(name, body)`. */
export class UserData extends Emitter {
  /** Stores the device's push token, name and capabilities. Each time replaces all that was registered before. */
  async register(registration) {
    return (await this.request("register", registration)).registered;
  }

  /** Removes a registration: this device's, or that of another device of the user. */
  async unregister(device) {
    await this.request("unregister", device ? { device } : {});
  }

  /**
   * Asks for ended calls, the newest first.
   * @param options `before`: those before this cursor; `limit`: 1 to 100, else 50
   * @returns `{entries, next, cursor, unread, readUpTo}`; without `next` there are no older ones
   */
  async history({ before, limit } = {}) {
    if (limit !== undefined && !(limit >= 1 && limit <= 100)) {
      throw new CallmeshError(106, "limit is 1 to 100.");
    }
    const body = {};
    if (before) body.before = before;
    if (limit) body.limit = limit;
    const { history } = await this.request("history", body);
    return { entries: [], unread: 0, ...history };
  }

  /** The user has read the history up to a cursor, on all devices. */
  async markHistoryRead(upTo) {
    const { history } = await this.request("historyRead", { upTo });
    return { unread: 0, ...history };
  }

  /** The user's decisions in advance about calls: do not disturb, forwarding. */
  async rules() {
    return (await this.request("rules", {})).rules;
  }

  /** Replaces all rules. Empty rules remove them. */
  async setRules(rules) {
    return (await this.request("setRules", rules)).rules;
  }
}
