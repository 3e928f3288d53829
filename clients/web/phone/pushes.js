// Calls that ring while no page is open: where the page's server has a key for pushes, and the user allows notifications.

import { disablePush, enablePush, followPushes } from "../callmesh.js";

export class Pushes {
  #device;
  #settings;
  #isAsked = false;
  #unfollow = () => {};
  /** Whether the cluster has this browser's subscription. */
  isRegistered = false;

  /** @param settings `edges`, and `push` with `publicKey` and `page`; without `push` nothing is done */
  constructor(device, settings) {
    this.#device = device;
    this.#settings = settings;
  }

  /** Takes up the call of the notification that has opened the page. May start the device. */
  follow() {
    this.#unfollow = followPushes(this.#device);
  }

  /** Pushes start this device no more: the user has signed out, or the cluster does not take it. */
  unfollow() {
    this.#unfollow();
  }

  /** Subscribes, where the user has allowed notifications. It asks nobody. */
  async enable() {
    const { push, edges } = this.#settings;
    if (!push || this.#isAsked || globalThis.Notification?.permission !== "granted") return;
    this.#isAsked = true;
    try {
      await enablePush(this.#device, { ...push, edges, worker: "../callmesh-sw.js" });
      this.isRegistered = true;
    } catch (error) {
      this.#isAsked = false;
      throw error;
    }
  }

  /** The user signs out. What cannot be taken back now ends when the cluster forgets the device. */
  async disable() {
    if (this.isRegistered && this.#device.state === "attached") await disablePush(this.#device).catch(() => {});
    this.isRegistered = this.#isAsked = false;
  }
}
