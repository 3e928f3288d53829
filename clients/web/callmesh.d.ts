// Types of the JavaScript client of Callmesh. README.md explains them; docs/device-protocol.md is the protocol behind.

export const version: string;

/** A listener of an `Emitter`; with `"*"` it also gets the event's name. */
type Listener<E> = (event: E, name?: string) => void;

declare class Emitter<Events> {
  /** @returns a function that removes the listener */
  on<N extends keyof Events>(name: N, listener: Listener<Events[N]>): () => void;
  on(name: "*", listener: (event: any, name: string) => void): () => void;
  once<N extends keyof Events>(name: N, listener: Listener<Events[N]>): () => void;
  off<N extends keyof Events>(name: N, listener: Listener<Events[N]>): void;
}

// Errors

/** Why a command failed. Base decisions on `code`; README.md lists them. */
export class CallmeshError extends Error {
  constructor(code: number, message?: string, retryAfterMs?: number);
  readonly code: number;
  /** The code in words, which never changes for a code. */
  readonly codeName: string;
  /** When a retry can succeed; 0: not said. */
  readonly retryAfterMs: number;
}
export const errorNames: Readonly<Record<number, string>>;

export type EndReason =
  | "answeredElsewhere"
  | "declined"
  | "cancelled"
  | "unanswered"
  | "busy"
  | "unreachable"
  | "hungUp"
  | "failed"
  | "glare"
  | "moved"
  | "transferred";
export const endReasons: readonly EndReason[];

// Calls

export interface Party {
  user: string;
  device: string;
  deviceName?: string;
  /** For a caller: the display name at the time of the call. */
  name?: string;
}
export interface Address {
  callee: string;
  id: string;
}
export interface Header {
  name: string;
  value: string;
}

/** A call's state, as the cluster says it in a reply. */
export interface ReportedState {
  call: Address;
  phase: "unknown" | "placed" | "ringing" | "answered" | "ended";
  version: number;
  reason?: EndReason;
  by?: Party;
  atMs?: number;
  deadlineMs?: number;
  missed?: boolean;
  survivor?: string;
  unreachable?: "noDevice" | "notWakeable" | "lost";
}

export interface End {
  reason: EndReason;
  /** Who caused it; null: nobody, or not known. */
  by: Party | null;
  /** Show the call as missed. */
  missed: boolean;
  /** The id of the call to which this one gave way. */
  survivor: string | null;
  unreachable: "noDevice" | "notWakeable" | "lost" | null;
  /** This device decided it without the cluster. */
  isLocal: boolean;
  /** The error of a call that could not be placed. */
  error: CallmeshError | null;
}

export type CallState =
  | "waking"
  | "placing"
  | "placed"
  | "ringing"
  | "answering"
  | "answered"
  | "connected"
  | "ended"
  | "lost";

export interface Signal {
  kind: "description" | "candidate" | "information";
  body: string;
}

export interface CallEvents {
  /** The state may have changed; it comes after each of the other events but signals. */
  state: { state: CallState };
  incoming: {};
  placed: { by: null };
  /** To the caller: `by` alerts its user. To a callee: an answer has failed, and the call rings on. */
  ringing: { by: Party | null };
  /** The call has gone on to others, and rings longer than was said; `deadlineMs` of the call is the same. */
  ringsUntil: { deadlineMs: number };
  answering: {};
  /** `isHere`: this device has won. Else it is the caller's, and `description` is the answer. */
  answered: { by: Party | null; description: string; isHere: boolean };
  /** The cluster has taken this device's `connected`. */
  connected: {};
  moved: { to: Party | null; description: string };
  /** Somebody rings, or with `reason`: nobody takes the call. */
  transfer: { to: string; by: Party | null; reason: EndReason | null };
  description: { body: string };
  candidate: { body: string };
  information: { body: string };
  ended: End;
}

/** A reply to a command, as the protocol has it: one of the members. */
export interface Reply {
  done?: {};
  call?: ReportedState;
}

export class Call extends Emitter<CallEvents> {
  private constructor();
  readonly id: string;
  readonly callee: string;
  readonly address: Readonly<Address>;
  readonly state: CallState;
  /** Which side this device has. A call that was transferred to it may be the caller's. */
  readonly role: "caller" | "callee";
  readonly isOver: boolean;
  readonly peer: Party | null;
  readonly end: End | null;
  readonly deadlineMs: number;
  /** For `place` and `resume`: resolves when the cluster has the call. */
  readonly placed: Promise<ReportedState> | null;
  // From the invite
  readonly caller: Party | null;
  readonly description: string;
  readonly video: boolean;
  readonly headers: Header[];
  readonly pushData: string;
  readonly isSecondCall: boolean;
  readonly divertedBy: string | null;
  readonly transferredBy: Party | null;
  /** The app's server placed the call; `caller` has answered it, and waits for this user. */
  readonly isSecondSide: boolean;
  /** The id of this device's own call, which gave way to this one: the device has this one without an answer. */
  readonly merged: string | null;
  /** This device was asked in that call: answer at once, without ringing. It has been checked. */
  readonly consulted: Address | null;
  /** This device's call to the same user, unanswered or given way. One of both goes on: do not ring. */
  readonly crosses: Call | null;
  /** The user has answered in a notification. */
  readonly isWanted: boolean;

  alerting(): Promise<Reply>;
  /** @returns whether this device has the call */
  answer(description?: string): Promise<boolean>;
  decline(): Promise<Reply>;
  declineHere(): Promise<Reply>;
  busy(): Promise<Reply>;
  cancel(): Promise<Reply>;
  resume(): Promise<Reply>;
  connected(): Promise<Reply>;
  hangUp(): Promise<Reply>;
  /** Cancels, declines or hangs up. Of a call that gave way to a crossing one: ends that one, at once or when it comes. */
  finish(): Promise<void>;
  sendDescription(body: string): Promise<Reply>;
  sendCandidate(body: string): Promise<Reply>;
  sendInformation(body: string): Promise<Reply>;
  transfer(to: string, options?: { device?: string; consulted?: Call | Address }): Promise<Reply>;
  cancelTransfer(): Promise<Reply>;
  query(): Promise<Reply>;
  /** One taker of signals, which also gets those that came before. null: nobody. */
  onSignal(take: ((signal: Signal) => void) | null): void;
}

// The device

export interface PlaceOptions {
  /** A UUID; absent: one is drawn. */
  id?: string;
  description?: string;
  video?: boolean;
  headers?: Header[];
  pushData?: string;
  ringTimeoutSeconds?: number;
}

export interface OngoingCall {
  call: Address;
  placed?: boolean;
  device: string;
  deviceName?: string;
  user: string;
  name?: string;
  sinceMs: number;
}

export interface HistoryEntry {
  cursor: string;
  call: Address;
  placed?: boolean;
  user: string;
  name?: string;
  device?: string;
  deviceName?: string;
  placedMs: number;
  answeredMs?: number;
  endedMs: number;
  reason: EndReason;
  missed?: boolean;
  video?: boolean;
  answeredBy?: string;
  wentOn?: boolean;
  /** To whom it went on: from the user or, of a placed call, from the callee. Members of a group are not named. */
  wentTo?: string[];
  divertedBy?: string;
}
export interface HistoryPage {
  entries: HistoryEntry[];
  next?: string;
  cursor: string;
  unread: number;
  readUpTo?: string;
}

export interface Forward {
  users: string[];
}
export interface Rules {
  always?: Forward;
  onBusy?: Forward;
  onNoAnswer?: Forward;
  noAnswerSeconds?: number;
  onUnreachable?: Forward;
  doNotDisturb?: { untilMs?: number; except?: string[] };
  firstDevices?: string[];
  firstSeconds?: number;
  readonly changedAtMs?: number;
}

export interface PushToken {
  provider: "apns" | "fcm" | "webPush";
  environment?: "production" | "sandbox";
  topic?: string;
  token: string;
}
export interface Registration {
  deviceName?: string;
  voipToken?: PushToken;
  alertToken?: PushToken;
  dialect?: string;
  sdkName?: string;
  sdkVersion?: string;
  capabilities?: string[];
  capabilitiesGiven?: boolean;
}
export interface Registered {
  device: string;
  expiresAtMs: number;
  removedDevices?: string[];
  capabilities?: string[];
}

/** Time, chance and sockets, for tests. What is left out is the browser's. */
export interface Environment {
  now?: () => number;
  random?: () => number;
  setTimer?: (callback: () => void, ms: number) => unknown;
  clearTimer?: (timer: any) => void;
  uuid?: () => string;
  WebSocket?: new (url: string, protocols: string[]) => any;
}

export interface Limits {
  attachTimeoutMs?: number;
  reconnectSpreadMs?: number;
  backoffMinMs?: number;
  backoffMaxMs?: number;
  drainingAvoidedMs?: number;
  commandTimeoutMs?: number;
  commandAttempts?: number;
  placePatienceMs?: number;
  leavePatienceMs?: number;
  pendingMax?: number;
  inFlightMax?: number;
  signalsMax?: number;
  ackDelayMs?: number;
  acksMax?: number;
  endedCallsMax?: number;
  callsMax?: number;
  pingAfterMs?: number;
  pingTimeoutMs?: number;
  ringGraceMs?: number;
  invitePatienceMs?: number;
  tokenTimeoutMs?: number;
  nearerSpreadMs?: number;
  nearerPauseMs?: number;
}

export interface DeviceOptions {
  /** `https://host` or `wss://host`; absent: the page's own origin. */
  edges?: string[];
  /** Index of the first edge to try; absent: any. */
  firstEdge?: number;
  /** 1 to 64 bytes; absent: the token names the device. */
  device?: string;
  deviceName?: string;
  /** Gets a token of the user from your server. It is called at the start and whenever another one is needed. */
  getToken?: () => Promise<string>;
  /** The first token, if the page has one. */
  token?: string;
  client?: string;
  /** The device is not rung: a click-to-call page. */
  onlyPlaces?: boolean;
  /** Tell which calls the user is in, on all devices. */
  ongoing?: boolean;
  /** Tell when the user's history changes. */
  history?: boolean;
  /** Get credentials for the TURN servers of the edge. */
  relays?: boolean;
  /** Move to the edge that is nearest to the user's calls. */
  nearer?: boolean;
  /** Watch the page's visibility and network; absent: true. */
  watchesPage?: boolean;
  limits?: Limits;
  environment?: Environment;
}

export interface DeviceEvents {
  attached: {
    session: string;
    user: string;
    device: string;
    pingSeconds: number;
    serverTimeMs: number;
    isAgain: boolean;
  };
  detached: { retryInMs: number; code: number; error: CallmeshError | null };
  /** The device makes no further attempt. */
  refused: { error: CallmeshError };
  tokenFailed: { error: CallmeshError };
  incoming: { call: Call };
  /**
   * A call that this device has without having rung or placed it just now: pulled, or of a former page. One of a former page
   * ends after a minute without a command of the app: `CallMedia.resume`, `connected` or `hangUp`.
   */
  taken: { call: Call };
  /** The user has answered a call in a notification that rings here. */
  wanted: { call: Call };
  /** Something happened to a call; `event` is the name of the call's event. */
  call: { call: Call; event: keyof CallEvents | "signal" };
  /** A call is over, also one that never rang here. */
  ended: { call: Call };
  ongoing: { calls: OngoingCall[] };
  history: { cursor: string; unread: number };
  /** New credentials for the TURN servers. `iceServers` has them. */
  relays: {};
  notice: { kind: string; message?: string; retryAfterMs?: number; nearer?: string };
}

export class Device extends Emitter<DeviceEvents> {
  constructor(options: DeviceOptions);
  readonly state: "stopped" | "waiting" | "connecting" | "attaching" | "attached";
  readonly user: string;
  readonly id: string;
  readonly clusterTime: number | null;
  readonly calls: Call[];
  readonly ongoing: OngoingCall[];
  readonly historyState: { cursor: string; unread: number } | null;
  /** The TURN servers that the edge has for this device now. */
  readonly iceServers: { urls: string[]; username: string; credential: string }[];
  find(id: string): Call | null;
  start(): void;
  stop(): void;
  leave(): void;
  suspend(): void;
  probe(): void;
  setHidden(isHidden: boolean): void;
  place(callee: string, options?: PlaceOptions): Call;
  pull(ongoing: Pick<OngoingCall, "call" | "device"> & Partial<OngoingCall>, description?: string): Promise<Call | null>;
  resume(address: Address): Call;
  end(address: Address): Promise<ReportedState>;
  wake(push: Address & { isWanted?: boolean }): Call | null;
  liveCalls(): Promise<{ placed: ReportedState[]; received: ReportedState[] }>;
  query(address: Address): Promise<ReportedState>;
  register(registration: Registration): Promise<Registered>;
  unregister(device?: string): Promise<void>;
  history(options?: { before?: string; limit?: number }): Promise<HistoryPage>;
  markHistoryRead(upTo: string): Promise<Omit<HistoryPage, "entries">>;
  rules(): Promise<Rules>;
  setRules(rules: Rules): Promise<Rules>;
}

// Media

export interface MediaOptions {
  /** The media that this side sends. */
  stream?: MediaStream;
  /** The configuration of connections. A function is asked for each of them, and whenever ICE starts anew. */
  rtc?: RTCConfiguration | (() => RTCConfiguration);
  /** Gives up before anything of the call is sent. Later it has no effect: the call's `finish` ends it. */
  signal?: AbortSignal;
  RTCPeerConnection?: any;
  environment?: any;
}
export interface MediaEvents {
  /** The connection's state: `connecting`, `connected`, `disconnected`, `failed`, … */
  state: { state: RTCPeerConnectionState };
  track: { track: MediaStreamTrack; streams: readonly MediaStream[] };
  /** The call goes on with another device. `media.connection` and `media.remote` are new. */
  moved: {};
  /** Two calls crossed, and this one goes on. */
  call: { call: Call };
  /** ICE was restarted in vain. */
  failed: {};
  error: { error: CallmeshError };
}
export class CallMedia extends Emitter<MediaEvents> {
  private constructor();
  static place(device: Device, callee: string, options?: MediaOptions & PlaceOptions): Promise<CallMedia>;
  static answer(call: Call, options?: MediaOptions): Promise<CallMedia | null>;
  static pull(device: Device, ongoing: OngoingCall, options?: MediaOptions): Promise<CallMedia | null>;
  static resume(call: Call, options?: MediaOptions): Promise<CallMedia>;
  readonly call: Call;
  readonly connection: RTCPeerConnection | null;
  readonly remote: MediaStream | null;
  setTrack(track: MediaStreamTrack): Promise<void>;
  removeTrack(kind: "audio" | "video"): void;
  restartIce(): void;
  close(): void;
}

// Pushes and pages

export interface PushOptions {
  /** The public half of the cluster's VAPID key, base64url. */
  publicKey: string;
  /** The address of `callmesh-sw.js`; absent: beside the page. */
  worker?: string;
  scope?: string;
  deviceName?: string;
  /** Edges that the service worker asks; absent: the page's own origin. */
  edges?: string[];
  /** The page that shows calls. */
  page?: string;
  icon?: string;
  texts?: Record<string, string>;
  quietEnd?: boolean;
}
export function enablePush(device: Device, options: PushOptions, browser?: any): Promise<Registered>;
export function disablePush(device: Device, browser?: any): Promise<void>;
export function followPushes(device: Device, browser?: any): () => void;

export interface HoldOptions {
  /** Ends the wait. */
  signal?: AbortSignal;
  /** Another tab has the id; `ask` asks it to give the id up. */
  onHeld?: (ask: () => void) => void;
  /** Another tab asks for the id. true gives it up: stop or leave with the device first. */
  onAsked?: () => boolean;
  /** `navigator.locks` and `BroadcastChannel`, or a test's. */
  locks?: any;
  Channel?: any;
}
/** Waits until no other page has the id. @returns a function that gives it free */
export function holdDevice(id: string, options?: HoldOptions): Promise<() => void>;
export function deviceId(prefix?: string, options?: { storage?: Storage; uuid?: () => string }): string;
