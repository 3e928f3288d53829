import { initial, reduce } from "./model.js";

/** Holds the model. Events change it one after the other; whoever listens is told once they are all done. */
export class Store {
  #listeners = [];
  #isTelling = false;

  constructor(settings) {
    this.model = initial(settings);
  }

  dispatch(event) {
    this.model = reduce(this.model, event);
    if (this.#isTelling) return;
    this.#isTelling = true;
    queueMicrotask(() => {
      this.#isTelling = false;
      for (const listener of this.#listeners) listener(this.model);
    });
  }

  /** Tells `listener` of the model after each change. */
  subscribe(listener) {
    this.#listeners.push(listener);
  }
}
