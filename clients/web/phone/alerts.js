// Draws the user's attention while the page is in the background, by the title and by a notification of the system.

import { incoming, titleOf } from "./model-calls.js";
import { statusText } from "./words.js";

export class Alerts {
  #shown = new Map();

  /** Shows a notification for each call that rings while nobody sees the page, and takes it away again. */
  update(model) {
    document.title = titleOf(model);
    const calls = incoming(model);
    for (const [id, notification] of this.#shown) {
      if (calls.some((call) => call.id === id)) continue;
      notification.close();
      this.#shown.delete(id);
    }
    if (!document.hidden || globalThis.Notification?.permission !== "granted") return;
    for (const call of calls) if (!this.#shown.has(call.id)) this.#show(model, call);
  }

  #show(model, call) {
    try {
      const body = "Open the page to answer.";
      const notification = new Notification(statusText(model, call), { body, tag: call.id, requireInteraction: true });
      notification.onclick = () => {
        window.focus();
        notification.close();
      };
      this.#shown.set(call.id, notification);
    } catch {
      // Some browsers want a service worker for it. The page still rings.
    }
  }

  /** Whether the browser has to be asked. */
  get isUndecided() {
    return globalThis.Notification?.permission === "default";
  }

  async allow() {
    if (this.isUndecided) await Notification.requestPermission();
  }
}
