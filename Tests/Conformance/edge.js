// A scripted edge: a WebSocket server (RFC 6455) that does nothing by itself but answer pings.

import { createHash } from "node:crypto";
import { createServer } from "node:http";
import { encodings } from "./encodings.js";

const magic = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/** Listens on a free port of loopback. Its connections go to `onLink`. */
export class Edge {
  /** Connections are cut before they are accepted. */
  isDown = false;
  /** An HTTP status with which upgrades are refused; 0: they are not. */
  refusal = 0;
  #server = createServer((request, response) => response.writeHead(426).end());
  #sockets = new Set();

  constructor(encoding, onLink, onAttempt) {
    this.encoding = encoding;
    this.#server.on("connection", (socket) => {
      this.#sockets.add(socket);
      socket.on("close", () => this.#sockets.delete(socket));
      socket.on("error", () => {});
      onAttempt(this);
      if (this.isDown) socket.destroy();
    });
    this.#server.on("upgrade", (request, socket, head) => this.#upgrade(request, socket, head, onLink));
  }

  async listen() {
    await new Promise((resolve) => this.#server.listen(0, "127.0.0.1", resolve));
    this.address = `ws://127.0.0.1:${this.#server.address().port}`;
  }

  close() {
    for (const socket of this.#sockets) socket.destroy();
    this.#server.close();
  }

  #upgrade(request, socket, head, onLink) {
    if (this.refusal) return void socket.end(`HTTP/1.1 ${this.refusal} Refused\r\nContent-Length: 0\r\nRetry-After: 1\r\n\r\n`);
    const offered = (request.headers["sec-websocket-protocol"] ?? "").split(",").map((name) => name.trim());
    const encoding = encodings[this.encoding];
    const accept = createHash("sha1").update(request.headers["sec-websocket-key"] + magic).digest("base64");
    socket.setNoDelay(true);
    socket.write(
      `HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n` +
        `Sec-WebSocket-Accept: ${accept}\r\nSec-WebSocket-Protocol: ${encoding.subprotocol}\r\n\r\n`,
    );
    onLink(new Link(this, socket, head, encoding, { path: request.url, offered, version: request.headers["sec-websocket-version"] }));
  }
}

/** One connection of the client. Situations speak through it; `onFrame` and `onClose` are the stage's. */
export class Link {
  /** The close code that the client gave; null: it closed without one, or not yet. */
  closedWith = null;
  isOpen = true;
  onFrame = () => {};
  onClose = () => {};
  onProblem = () => {};
  #socket;
  #input;
  #message = [];
  #messageOpcode = 0;
  #pongs = [];

  constructor(edge, socket, head, encoding, request) {
    Object.assign(this, { edge, encoding, request });
    this.#socket = socket;
    this.#input = head;
    socket.on("data", (data) => this.#read(data));
    socket.on("error", () => {});
    // Sockets of an HTTP server stay half open.
    socket.on("end", () => (socket.end(), this.#closed()));
    socket.on("close", () => this.#closed());
  }

  send(frame) {
    this.write(this.encoding.opcode, this.encoding.encode(frame));
  }

  /** Writes a WebSocket frame as it is. `isLast` false: fragments follow, with the opcode 0. */
  write(opcode, payload, isLast = true) {
    const { length } = payload;
    const size = Buffer.alloc(length < 126 ? 2 : length < 65_536 ? 4 : 10);
    size[0] = (isLast ? 0x80 : 0) | opcode;
    size[1] = length < 126 ? length : length < 65_536 ? 126 : 127;
    if (size.length === 4) size.writeUInt16BE(length, 2);
    if (size.length === 10) size.writeBigUInt64BE(BigInt(length), 2);
    if (this.isOpen) this.#socket.write(Buffer.concat([size, payload]));
  }

  /** Sends a WebSocket ping. Resolves with true at its pong, or false when the connection is gone. */
  ping() {
    if (!this.isOpen) return Promise.resolve(false);
    return new Promise((resolve) => {
      this.#pongs.push(resolve);
      this.write(9, Buffer.from("alive?"));
    });
  }

  /** The edge closes the connection. */
  close(code) {
    this.write(8, Buffer.from([code >> 8, code & 255]));
    this.#socket.end();
    this.#closed();
  }

  /** The connection breaks: nothing is said. */
  break() {
    this.#socket.destroy();
    this.#closed();
  }

  #closed() {
    if (!this.isOpen) return;
    this.isOpen = false;
    for (const pong of this.#pongs.splice(0)) pong(false);
    this.onClose();
  }

  #read(data) {
    this.#input = Buffer.concat([this.#input, data]);
    for (;;) {
      const input = this.#input;
      if (input.length < 2) return;
      const short = input[1] & 127;
      const head = short === 126 ? 8 : short === 127 ? 14 : 6;
      if (input.length < head) return;
      const length = short === 126 ? input.readUInt16BE(2) : short === 127 ? Number(input.readBigUInt64BE(2)) : short;
      if (input.length < head + length) return;
      if ((input[1] & 128) === 0) this.onProblem("a WebSocket frame of the client is not masked");
      const mask = input.subarray(head - 4, head);
      const payload = Buffer.from(input.subarray(head, head + length));
      for (let index = 0; index < length; index += 1) payload[index] ^= mask[index & 3];
      this.#input = input.subarray(head + length);
      this.#frame(input[0] & 15, (input[0] & 128) !== 0, payload);
    }
  }

  #frame(opcode, isLast, payload) {
    if (!this.isOpen) return;
    if (opcode === 9) return this.write(10, payload);
    if (opcode === 10) return this.#pongs.shift()?.(true);
    if (opcode === 8) {
      if (payload.length >= 2) this.closedWith = payload.readUInt16BE(0);
      this.write(8, payload.subarray(0, 2));
      this.#socket.end();
      return this.#closed();
    }
    if (opcode !== 0) this.#messageOpcode = opcode;
    this.#message.push(payload);
    if (isLast) this.onFrame(this.#messageOpcode, Buffer.concat(this.#message.splice(0)));
  }
}
