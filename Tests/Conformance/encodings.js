// The two encodings of the protocol. Situations are written as JSON on docs/device-protocol.md; a client of
// `callmesh.v1.pb` gets the same messages as protobuf.

import { schema } from "./schema.js";

/** The field under which a member of a later version stands in protobuf. No version has one of this number. */
const laterField = 1999;
/** The number of an enumeration's value that a later version adds. */
const laterValue = 99;

const varint = (number) => {
  const bytes = [];
  for (let rest = BigInt(number); ; rest >>= 7n) {
    if (rest < 128n) return Buffer.from([...bytes, Number(rest)]);
    bytes.push(Number(rest & 127n) | 128);
  }
};

const idBytes = (text) => Buffer.from(text.replaceAll("-", ""), "hex");
const idText = (bytes) =>
  bytes.length === 0 ? "" : bytes.toString("hex").replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");

const lengthDelimited = (number, bytes) => Buffer.concat([varint((number << 3) | 2), varint(bytes.length), bytes]);

function encodeMessage(message, type) {
  const fields = schema.messages.get(type);
  const parts = [];
  for (const [name, value] of Object.entries(message)) {
    if (value === null || value === undefined) continue;
    const field = fields.get(name);
    if (!field) parts.push(lengthDelimited(laterField, Buffer.from(JSON.stringify(value))));
    else for (const one of field.isList ? value : [value]) parts.push(encodeField(one, field));
  }
  return Buffer.concat(parts);
}

function encodeField(value, { number, type, isList, oneof }) {
  if (schema.messages.has(type)) return lengthDelimited(number, encodeMessage(value, type));
  if (type === "string") return lengthDelimited(number, Buffer.from(value));
  if (type === "bytes") return lengthDelimited(number, idBytes(value));
  const numbers = schema.enums.get(type)?.numbers;
  const plain = numbers ? (numbers.get(value) ?? laterValue) : Number(value);
  // proto3 leaves out what is zero.
  return plain === 0 && !isList && !oneof ? Buffer.alloc(0) : Buffer.concat([varint(number << 3), varint(plain)]);
}

function readVarint(bytes, at) {
  let value = 0n;
  for (let shift = 0n; at < bytes.length && shift < 70n; shift += 7n) {
    const byte = bytes[at++];
    value |= BigInt(byte & 127) << shift;
    if (byte < 128) return [Number(value), at];
  }
  throw new Error("a number is not complete");
}

function decodeMessage(bytes, type) {
  const byNumber = new Map([...schema.messages.get(type).values()].map((field) => [field.number, field]));
  const message = {};
  for (let at = 0; at < bytes.length; ) {
    let tag, value;
    [tag, at] = readVarint(bytes, at);
    [value, at] = readVarint(bytes, at);
    if ((tag & 7) === 2) {
      if (at + value > bytes.length) throw new Error("a field is not complete");
      [value, at] = [bytes.subarray(at, at + value), at + value];
    } else if ((tag & 7) !== 0) throw new Error(`wire type ${tag & 7}`);
    const field = byNumber.get(tag >>> 3);
    // The check of the schema reports it.
    if (!field) message[`field ${tag >>> 3}`] = true;
    else if (field.isList) (message[field.name] ??= []).push(decodeValue(value, field.type));
    else message[field.name] = decodeValue(value, field.type);
  }
  return message;
}

function decodeValue(value, type) {
  if (schema.messages.has(type)) return decodeMessage(value, type);
  if (type === "string") return value.toString();
  if (type === "bytes") return idText(value);
  if (type === "bool") return value !== 0;
  return schema.enums.has(type) ? (schema.enums.get(type).texts.get(value) ?? `value ${value}`) : value;
}

/** By name: the subprotocol, the opcode of its frames, and both directions. `decode` throws what is wrong. */
export const encodings = {
  json: {
    subprotocol: "callmesh.v1.json",
    opcode: 1,
    encode: (frame) => Buffer.from(JSON.stringify(frame)),
    decode: (bytes) => JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes)),
    frameBytesMax: 786_432,
  },
  protobuf: {
    subprotocol: "callmesh.v1.pb",
    opcode: 2,
    encode: (frame) => encodeMessage(frame, "ServerFrame"),
    decode: (bytes) => decodeMessage(bytes, "ClientFrame"),
    frameBytesMax: 131_072,
  },
};
