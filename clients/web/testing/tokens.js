// Tokens for tests against a real cluster, signed with the first key of a file of keys.

import { createHmac, randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";

export const edges = process.env.CALLMESH_EDGES?.split(",");
const keys = process.env.CALLMESH_KEYS && JSON.parse(readFileSync(process.env.CALLMESH_KEYS, "utf8"));

/** Why tests against a cluster are left out; false: they are not. */
export const skip = edges && keys ? false : "no cluster is named (CALLMESH_EDGES, CALLMESH_KEYS)";

export const user = (name = "u") => `${name}-${randomUUID().slice(0, 8)}`;

export function token(user, seconds = 600) {
  const [{ app, keys: [key] }] = keys.apps;
  const part = (value) => Buffer.from(JSON.stringify(value)).toString("base64url");
  const now = Math.floor(Date.now() / 1000);
  const claims = { app, sub: user, iat: now, exp: now + seconds, name: `${user}'s name` };
  const signed = `${part({ alg: "HS256", typ: "JWT", kid: key.kid })}.${part(claims)}`;
  return `${signed}.${createHmac("sha256", Buffer.from(key.secret, "base64")).update(signed).digest("base64url")}`;
}
