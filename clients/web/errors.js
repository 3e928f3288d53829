/** The protocol's error codes and their names. A code never changes its meaning. */
export const errorNames = Object.freeze({
  100: "malformedFrame",
  101: "frameTooLarge",
  102: "unknownCommand",
  103: "wrongFrameType",
  104: "notAttached",
  105: "alreadyAttached",
  106: "invalidField",
  107: "rateLimited",
  108: "unsupportedSubprotocol",
  109: "noSuchResource",
  110: "methodNotAllowed",
  200: "notAccepted",
  201: "expired",
  202: "forbidden",
  203: "tokenTooLong",
  204: "revoked",
  300: "invalidDevice",
  301: "invalidPushToken",
  302: "unknownDevice",
  303: "unknownDialect",
  304: "unknownCapability",
  305: "invalidUserForDialect",
  306: "tooManyDevices",
  307: "foreignPushTopic",
  400: "unknownCall",
  401: "callIdTaken",
  402: "notParty",
  404: "wrongState",
  405: "tooManyCalls",
  406: "tooManyLiveCalls",
  407: "headersTooLarge",
  408: "descriptionTooLarge",
  409: "tooManySignals",
  410: "invalidCallee",
  411: "invalidRingTimeout",
  412: "noGateway",
  413: "informationTooLarge",
  414: "pushDataTooLarge",
  415: "tooManyMoves",
  416: "transferring",
  420: "refusedByApp",
  421: "unknownUser",
  422: "userUnavailable",
  423: "appAway",
  430: "invalidRules",
  500: "internalError",
  501: "tryAgain",
  502: "draining",
  503: "overloaded",
  // From 900 on: errors of this client, which no server sends.
  900: "stopped",
  901: "replaced",
  902: "noToken",
  903: "pushUnavailable",
  904: "mediaFailed",
});

/** Why a command failed. Base decisions on `code` alone: `message` is for logs and may change. */
export class CallmeshError extends Error {
  constructor(code, message, retryAfterMs = 0) {
    const name = errorNames[code] ?? "unknownError";
    super(message || name);
    this.name = "CallmeshError";
    this.code = code;
    this.codeName = name;
    this.retryAfterMs = retryAfterMs;
  }

  /** Makes the error that a reply's `error` member describes. */
  static from(error) {
    return new CallmeshError(error?.code ?? 500, error?.message, error?.retryAfterMs ?? 0);
  }
}

/** Errors after which the same command is sent again under the same id. */
export const asksForRetry = (code) =>
  code === 107 || code === 500 || code === 501 || code === 502 || code === 503;

/** Errors after which the command may have taken effect all the same. */
export const leavesDoubt = (code) => code === 500 || code === 501;

/** Errors of an attach after which another attempt with the same settings cannot succeed. */
export const isFinalForAttach = (code) =>
  [106, 108, 200, 201, 202, 203, 204, 300].includes(code);

/** The reasons of an end, as `call.end.reason` gives them. */
export const endReasons = Object.freeze([
  "answeredElsewhere",
  "declined",
  "cancelled",
  "unanswered",
  "busy",
  "unreachable",
  "hungUp",
  "failed",
  "glare",
  "moved",
  "transferred",
]);
