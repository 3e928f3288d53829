// Stands in for parts of a browser that Node lacks: up to 20 a WebSocket, of which this has as much of RFC 6455 as an edge
// needs, and in 18, which Debian 12 has, `crypto`. For tests against a real cluster only.

import { randomBytes, webcrypto } from "node:crypto";
import { request } from "node:http";

globalThis.crypto ??= webcrypto;

export class NodeSocket {
  readyState = 0;
  protocol = "";
  bufferedAmount = 0;
  #stream = null;
  #input = Buffer.alloc(0);
  #message = [];
  #isDone = false;

  constructor(url, protocols) {
    const headers = {
      Connection: "Upgrade",
      Upgrade: "websocket",
      "Sec-WebSocket-Version": "13",
      "Sec-WebSocket-Key": randomBytes(16).toString("base64"),
      "Sec-WebSocket-Protocol": protocols.join(", "),
    };
    const upgrade = request(url.replace(/^ws/, "http"), { headers });
    upgrade.on("upgrade", (response, stream, head) => this.#opened(response, stream, head));
    upgrade.on("response", (response) => (response.resume(), this.#closed(1006)));
    upgrade.on("error", () => this.#closed(1006));
    upgrade.end();
  }

  send(text) {
    this.#write(1, Buffer.from(text));
  }

  close(code = 1005) {
    if (this.readyState === 1) this.#write(8, Buffer.from([code >> 8, code & 255]));
    this.readyState = 2;
    this.#stream?.end();
  }

  /** The connection breaks: nothing is said to the other side. */
  cut() {
    this.#stream?.destroy();
    this.#closed(1006);
  }

  #opened(response, stream, head) {
    if (this.readyState !== 0) return stream.destroy();
    this.#stream = stream;
    this.protocol = response.headers["sec-websocket-protocol"] ?? "";
    this.readyState = 1;
    stream.on("data", (data) => this.#read(data));
    stream.on("close", () => this.#closed(1006));
    stream.on("error", () => this.#closed(1006));
    this.onopen?.({});
    this.#read(head);
  }

  #write(opcode, payload) {
    const { length } = payload;
    const size = length < 126 ? Buffer.from([0x80 | length]) : length < 65_536 ? Buffer.alloc(3) : Buffer.alloc(9);
    if (size.length === 3) size.writeUInt8(0x80 | 126), size.writeUInt16BE(length, 1);
    if (size.length === 9) size.writeUInt8(0x80 | 127), size.writeBigUInt64BE(BigInt(length), 1);
    const mask = randomBytes(4);
    const masked = Buffer.from(payload);
    for (let index = 0; index < length; index += 1) masked[index] ^= mask[index & 3];
    this.#stream.write(Buffer.concat([Buffer.from([0x80 | opcode]), size, mask, masked]));
  }

  #read(data) {
    this.#input = Buffer.concat([this.#input, data]);
    for (;;) {
      const input = this.#input;
      if (input.length < 2) return;
      const short = input[1] & 127;
      const head = short === 126 ? 4 : short === 127 ? 10 : 2;
      if (input.length < head) return;
      const length = head === 4 ? input.readUInt16BE(2) : head === 10 ? Number(input.readBigUInt64BE(2)) : short;
      if (input.length < head + length) return;
      this.#input = input.subarray(head + length);
      this.#frame(input[0] & 15, (input[0] & 128) !== 0, input.subarray(head, head + length));
    }
  }

  #frame(opcode, isLast, payload) {
    if (opcode === 9) return this.readyState === 1 ? this.#write(10, payload) : undefined;
    if (opcode === 8) return this.#closed(payload.length >= 2 ? payload.readUInt16BE(0) : 1005);
    if (opcode === 10) return;
    this.#message.push(payload);
    if (isLast) this.onmessage?.({ data: Buffer.concat(this.#message.splice(0)).toString() });
  }

  #closed(code) {
    if (this.#isDone) return;
    this.#isDone = true;
    this.readyState = 3;
    this.#stream?.end();
    this.onclose?.({ code });
  }
}
