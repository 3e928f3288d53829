import { CallmeshError } from "./errors.js";

/** Time limits and sizes. The times that docs/device-protocol.md gives are the defaults. */
export const defaults = Object.freeze({
  /** Limit for the connection to open, and again for the reply to the attach. */
  attachTimeoutMs: 10_000,
  /** After a session broke, the next attempt is made at a random moment of this time. */
  reconnectSpreadMs: 1000,
  backoffMinMs: 250,
  backoffMaxMs: 15_000,
  /** How long an edge that announced its shutdown is avoided. */
  drainingAvoidedMs: 30_000,
  commandTimeoutMs: 7000,
  commandAttempts: 4,
  /** How long a `place` waits for a connection. Nobody expects a call that begins a minute late. */
  placePatienceMs: 30_000,
  /** How long a hang-up, decline, busy or cancel is repeated: the longest that a call may ring. */
  leavePatienceMs: 180_000,
  /** The most commands that wait for a reply. One more is refused (107). */
  pendingMax: 192,
  /** The most commands on their way at once. An edge refuses more than 64. */
  inFlightMax: 48,
  /** The most descriptions, candidates and informations of one call that wait (409). */
  signalsMax: 128,
  /** How long an acknowledgement waits for a command to travel with. */
  ackDelayMs: 100,
  acksMax: 64,
  endedCallsMax: 32,
  callsMax: 256,
  /** A connection on which nothing came for this long is asked with `ping`. */
  pingAfterMs: 20_000,
  pingTimeoutMs: 5000,
  /** How long after its deadline a call stops ringing by itself where there is no connection. */
  ringGraceMs: 5000,
  /** How long a device waits for the invite of a call that is known to ring, or to which its own call gave way. */
  invitePatienceMs: 5000,
  tokenTimeoutMs: 30_000,
  nearerSpreadMs: 60_000,
  nearerPauseMs: 600_000,
});

/** An attach may be in flight for this long after its connection was given up. */
export const attachInFlightMs = 120_000;

const wokenMax = 16;
export { wokenMax };

const bytes = (text) => new TextEncoder().encode(text).length;

/** Checks the size of a text, and throws the error that the cluster would answer with. */
export function checkBytes(text, max, code, what) {
  if (typeof text !== "string") throw new CallmeshError(106, `${what} must be text.`);
  // Text of UTF-16 has at most three bytes for a unit, so short texts need no encoding.
  if (text.length * 3 > max && bytes(text) > max) {
    throw new CallmeshError(code, `${what} has more than ${max} bytes.`);
  }
  return text;
}

/** The address of an edge's socket: `https://host` and `wss://host` mean `wss://host/v1/connect`. */
export function socketUrl(text) {
  let url;
  try {
    url = new URL(text);
  } catch {
    throw new CallmeshError(106, `Not the address of an edge: ${text}`);
  }
  const schemes = { "http:": "ws:", "https:": "wss:", "ws:": "ws:", "wss:": "wss:" };
  const scheme = schemes[url.protocol];
  if (!scheme || url.username) throw new CallmeshError(106, `Not the address of an edge: ${text}`);
  const path = url.pathname === "/" ? "/v1/connect" : url.pathname;
  return `${scheme}//${url.host}${path}`;
}

/** Merges an app's options with the defaults. `edges` becomes a list of socket addresses. */
export function settle(options) {
  const settings = { ...defaults, deviceName: "", client: "callmesh-web/1", ...options.limits };
  for (const key of ["device", "deviceName", "client", "token", "edges", "firstEdge"]) {
    if (options[key] !== undefined) settings[key] = options[key];
  }
  for (const key of ["onlyPlaces", "ongoing", "history", "relays", "nearer"]) settings[key] = !!options[key];
  const edges = settings.edges ?? (globalThis.location ? [globalThis.location.origin] : []);
  settings.edges = [...new Set(edges.map(socketUrl))];
  if (settings.edges.length === 0) throw new CallmeshError(106, "There is no edge.");
  checkBytes(settings.device ?? "", 64, 300, "The device's id");
  // The edge cuts a name that is longer than 128 bytes.
  checkBytes(settings.deviceName, 4096, 106, "The device's name");
  settings.canRenew = typeof options.getToken === "function";
  if (!settings.canRenew && !settings.token) {
    throw new CallmeshError(902, "Give a token, or getToken.");
  }
  return settings;
}
