/** Events by name. A listener that throws does not keep the others, or the client, from working. */
export class Emitter {
  #listeners = new Map();

  /**
   * Calls `listener` for each event of this name.
   * @returns a function that removes the listener
   */
  on(name, listener) {
    const list = this.#listeners.get(name) ?? [];
    this.#listeners.set(name, [...list, listener]);
    return () => this.off(name, listener);
  }

  off(name, listener) {
    const list = this.#listeners.get(name) ?? [];
    this.#listeners.set(
      name,
      list.filter((other) => other !== listener),
    );
  }

  once(name, listener) {
    const off = this.on(name, (event) => {
      off();
      listener(event);
    });
    return off;
  }

  /** Tells the listeners of `name`, then those of `"*"`, which get the name as well. */
  emit(name, event) {
    for (const listener of this.#listeners.get(name) ?? []) call(listener, event);
    for (const listener of this.#listeners.get("*") ?? []) call(listener, event, name);
  }
}

function call(listener, event, name) {
  try {
    listener(event, name);
  } catch (error) {
    report(error);
  }
}

/** Shows an error as an uncaught one without interrupting the caller. */
export function report(error) {
  if (typeof globalThis.reportError === "function") globalThis.reportError(error);
  else globalThis.console?.error(error);
}
