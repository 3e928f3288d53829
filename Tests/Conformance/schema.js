// The protocol's messages, read from the published schema: what a frame may hold, in both encodings.

import { readFileSync } from "node:fs";

const source = new URL("../../Proto/callmesh/v1/device.proto", import.meta.url);

const camel = (snake) => snake.toLowerCase().replace(/_(.)/g, (_, letter) => letter.toUpperCase());

/**
 * Parses as much of proto3 as the schema uses: messages without nested ones, enumerations, `oneof`, `repeated`.
 * @returns `{messages, enums}`: messages by name, each a map from JSON names to fields; enums as `{numbers, texts}`
 */
export function parse(text) {
  const messages = new Map();
  const enums = new Map();
  const clean = text.replace(/\/\/.*$/gm, "");
  for (const [, kind, name, body] of clean.matchAll(/(message|enum) (\w+) \{((?:[^{}]|\{[^{}]*\})*)\}/g)) {
    if (kind === "enum") enums.set(name, parseEnum(name, body));
    else messages.set(name, parseMessage(body));
  }
  return { messages, enums };
}

function parseMessage(body) {
  const fields = new Map();
  const add = (text, oneof) => {
    for (const [, repeated, type, name, number] of text.matchAll(/(repeated )?(\w+) (\w+) = (\d+);/g)) {
      fields.set(camel(name), { name: camel(name), number: Number(number), type, isList: !!repeated, oneof });
    }
  };
  add(body.replace(/oneof (\w+) \{([^}]*)\}/g, (_, oneof, inner) => (add(inner, oneof), "")), null);
  return fields;
}

/** `END_REASON_HUNG_UP = 7` of `EndReason` is the text `hungUp`. What stands for "none" has no text. */
function parseEnum(name, body) {
  const prefix = name.replace(/(.)([A-Z])/g, "$1_$2").toUpperCase() + "_";
  const numbers = new Map();
  const texts = new Map();
  for (const [, value, number] of body.matchAll(/(\w+) = (\d+);/g)) {
    const text = camel(value.slice(prefix.length));
    texts.set(Number(number), text === "none" || text === "unspecified" ? "" : text);
    numbers.set(texts.get(Number(number)), Number(number));
  }
  return { numbers, texts };
}

export const schema = parse(readFileSync(source, "utf8"));

const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;
const wholeNumber = { uint32: 2 ** 32 - 1, uint64: Number.MAX_SAFE_INTEGER, int64: Number.MAX_SAFE_INTEGER };

/** @returns what is wrong with a message of this type; none: an empty list */
export function check(message, type, path = type) {
  if (typeof message !== "object" || message === null || Array.isArray(message)) return [`${path} is no object`];
  const fields = schema.messages.get(type);
  const problems = [];
  const oneofs = new Map();
  for (const [name, value] of Object.entries(message)) {
    const field = fields.get(name);
    if (!field) {
      problems.push(`${path} has a member that the protocol does not know: ${name}`);
      continue;
    }
    if (value === null) continue;
    if (field.oneof) oneofs.set(field.oneof, [...(oneofs.get(field.oneof) ?? []), name]);
    const values = field.isList ? value : [value];
    if (!Array.isArray(values)) problems.push(`${path}.${name} is no list`);
    else for (const one of values) problems.push(...checkValue(one, field.type, `${path}.${name}`));
  }
  for (const names of oneofs.values()) {
    if (names.length > 1) problems.push(`${path} has more than one of ${names.join(", ")}`);
  }
  return problems;
}

function checkValue(value, type, path) {
  if (schema.messages.has(type)) return check(value, type, path);
  if (schema.enums.has(type)) {
    return schema.enums.get(type).numbers.has(value) ? [] : [`${path} is no ${type}: ${JSON.stringify(value)}`];
  }
  switch (type) {
    case "bool":
      return typeof value === "boolean" ? [] : [`${path} is neither true nor false`];
    case "string":
      return typeof value === "string" && !value.includes("\0") ? [] : [`${path} is no text`];
    case "bytes":
      return typeof value === "string" && (value === "" || uuid.test(value)) ? [] : [`${path} is no call id`];
    default:
      return Number.isInteger(value) && value >= 0 && value <= wholeNumber[type] ? [] : [`${path} is no ${type}`];
  }
}
