// The modules have the members that callmesh.d.ts declares and README.md explains, and no others.

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import * as callmesh from "../callmesh.js";
import { Emitter } from "../emitter.js";
import { defaults } from "../settings.js";

const text = (name) => readFileSync(new URL(`../${name}`, import.meta.url), "utf8");
const [types, readme] = [text("callmesh.d.ts"), text("README.md")];

/** The body of a declared interface or class, and the names of its members. */
const body = (declaration) => types.split(new RegExp(`export (?:class|interface) ${declaration}\\b.*{\\n`))[1].split("\n}")[0];
const members = (declaration) =>
  [...body(declaration).matchAll(/^ {2}(?!private)(?:readonly |static )*([a-zA-Z]+)[?(:<]/gm)]
    .map(([, name]) => name)
    .filter((name) => name !== "constructor");

/** A class's public members: its getters and methods, with those of its parents up to the emitter. */
function own(type) {
  const names = new Set(Object.getOwnPropertyNames(type).filter((name) => typeof type[name] === "function" && name !== "constructor"));
  for (let at = type.prototype; at && at !== Emitter.prototype; at = Object.getPrototypeOf(at)) {
    for (const name of Object.getOwnPropertyNames(at)) if (name !== "constructor" && !name.startsWith("_")) names.add(name);
  }
  return names;
}

/** Members that only other modules use. */
const internal = { Device: ["command", "finishSurvivor", "request"], Call: ["handle"], CallMedia: [] };

for (const name of ["Device", "Call", "CallMedia"]) {
  test(`every member of ${name} is declared and explained`, () => {
    const declared = members(name);
    const missing = [...own(callmesh[name])].filter((member) => !declared.includes(member) && !internal[name].includes(member));
    assert.deepEqual(missing, [], "declared nowhere");
    for (const member of declared) assert.match(readme, new RegExp("`" + (name === "CallMedia" ? "(CallMedia\\.)?" : "") + member + "\\b|CallMedia\\." + member), member);
  });
}

test("every event is explained", () => {
  for (const name of ["DeviceEvents", "CallEvents", "MediaEvents"]) {
    for (const event of members(name)) assert.match(readme, new RegExp("\\| [^|]*`" + event + "`[^|]*\\|"), `${name}: ${event}`);
  }
});

test("the declared limits are the settings, and the options are explained", () => {
  assert.deepEqual(members("Limits").sort(), Object.keys(defaults).sort());
  for (const options of ["DeviceOptions", "PlaceOptions", "PushOptions", "MediaOptions"]) {
    for (const option of members(options)) assert.ok(readme.includes(`\`${option}`) || readme.includes(`${option}:`) || readme.includes(` ${option}`), option);
  }
});

test("every export is declared and explained", () => {
  for (const name of Object.keys(callmesh)) {
    assert.match(types, new RegExp(`export (?:class|function|const) ${name}\\b`), name);
    assert.match(readme, new RegExp(`\\b${name}\\b`), name);
  }
});

/** The codes and names of a document's tables of errors. One row may have several. */
const errorsIn = (document) =>
  [...document.matchAll(/^\| (\d{3}(?:, \d{3})*) \| (`\w+`(?:, `\w+`)*) \|/gm)].flatMap(([, codes, names]) => {
    const [numbers, words] = [codes.split(", ").map(Number), names.replaceAll("`", "").split(", ")];
    assert.equal(numbers.length, words.length, codes);
    return numbers.map((code, at) => [code, words[at]]);
  });

test("the names of errors are the protocol's, and README.md has those that this client makes", () => {
  const names = Object.entries(callmesh.errorNames).map(([code, name]) => [Number(code), name]);
  const isOwn = ([code]) => code >= 900;
  assert.deepEqual(names.filter((one) => !isOwn(one)), errorsIn(text("../../docs/device-protocol.md")));
  const explained = errorsIn(readme);
  assert.deepEqual(explained.filter(isOwn), names.filter(isOwn));
  for (const [code, name] of explained) assert.equal(callmesh.errorNames[code], name, `${code} in README.md`);
  for (const file of readdirSync(new URL("../", import.meta.url)).filter((name) => name.endsWith(".js"))) {
    const codes = [...text(file).matchAll(/new CallmeshError\(([^,]*)/g)].flatMap(([, code]) => code.match(/\b\d{3}\b/g) ?? []);
    for (const code of codes) assert.ok(explained.some((one) => one[0] === Number(code)), `${code} of ${file} is not in README.md`);
  }
});

test("the page of README.md has thirty lines", () => {
  const lines = /```html\n([^]*?)```/.exec(readme)[1].trim().split("\n");
  assert.ok(lines.length <= 30, `${lines.length} lines`);
});
