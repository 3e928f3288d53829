// Put into a page before its scripts: what comes from an edge is mangled. Replies are left alone, since each answers a
// command and is awaited; deliveries are repeated by the cluster until the device acknowledges them.
(() => {
  let state = SEED;
  const random = () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 4294967296;
  };
  const counts = (globalThis.mangled = { late: 0, twice: 0, lost: 0 });
  const RealSocket = globalThis.WebSocket;

  globalThis.WebSocket = class extends RealSocket {
    #held = [];

    set onmessage(take) {
      super.onmessage = (event) => (event.data.startsWith('{"delivery"') ? this.#mangle(event, take) : take(event));
    }

    #mangle(event, take) {
      const roll = random();
      if (roll < 0.1) {
        counts.lost += 1;
        return;
      }
      if (roll < 0.45) {
        counts.late += 1;
        this.#held.push(event);
        // Deliveries that are held overtake one another.
        setTimeout(() => take(this.#held.splice(Math.floor(random() * this.#held.length), 1)[0]), random() * 800);
        return;
      }
      if (roll < 0.7) {
        counts.twice += 1;
        take(event);
      }
      take(event);
    }
  };
})();
