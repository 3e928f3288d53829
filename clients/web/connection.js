// One WebSocket to an edge. It turns the socket's events into frames, and gives up a socket that takes nothing.

const subprotocol = "callmesh.v1.json";

/** A frame of an edge may hold all that waited for the device, but not more than this. */
const frameCharactersMax = 4 * 1024 * 1024;
/** The most bytes that may wait in the browser. An edge takes 64 kB a second: more than this is a dead connection. */
const bufferedBytesMax = 1024 * 1024;

export class Link {
  #socket;
  #listener;

  /**
   * Begins to connect.
   * @param WebSocketClass the browser's WebSocket, or a test's
   * @param listener `opened()`, `received(frame)` and `closed(code)`, each until `close` is called
   */
  constructor(WebSocketClass, url, listener) {
    this.#listener = listener;
    try {
      this.#socket = new WebSocketClass(url, [subprotocol]);
    } catch {
      // The page may not connect there: its security policy says so, or the address is not one.
      this.#socket = null;
      queueMicrotask(() => this.#closed(1006));
      return;
    }
    this.#socket.onopen = () => this.#opened();
    this.#socket.onmessage = (event) => this.#received(event.data);
    this.#socket.onclose = (event) => this.#closed(event.code);
    // `onclose` follows, and has the code.
    this.#socket.onerror = () => {};
  }

  /** Sends a frame. One that cannot leave is repeated on the next connection. */
  send(frame) {
    if (this.#socket?.readyState !== 1) return;
    if (this.#socket.bufferedAmount > bufferedBytesMax) {
      const listener = this.#listener;
      this.close(3000);
      listener?.closed(1006);
      return;
    }
    this.#socket.send(JSON.stringify(frame));
  }

  /** Closes the connection; its events no longer matter. Code 1000 means that the device detaches. */
  close(code) {
    this.#listener = null;
    try {
      this.#socket?.close(code);
    } catch {
      // A socket that is not open yet may refuse a code.
    }
  }

  #opened() {
    if (this.#socket.protocol === subprotocol) return this.#listener?.opened();
    const listener = this.#listener;
    this.close(3000);
    listener?.closed(1002);
  }

  #received(data) {
    if (typeof data !== "string" || data.length > frameCharactersMax) return;
    let frame;
    try {
      frame = JSON.parse(data);
    } catch {
      return;
    }
    if (frame && typeof frame === "object") this.#listener?.received(frame);
  }

  #closed(code) {
    const listener = this.#listener;
    this.#listener = null;
    listener?.closed(code);
  }
}
