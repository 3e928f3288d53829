import CallAuth
import CallCore
import CallEdge
import CallWire
import Testing

let ann = UserKey(app: "demo", user: "ann")
let bob = UserKey(app: "demo", user: "bob")

/// A session and what it asked for.
struct SessionMachine {
  static let start = Timestamp(microseconds: 1_800_000_000_000_000)

  var session: DeviceSession
  var turn = DeviceSession.Turn(now: SessionMachine.start)

  init(
    claims: DeviceClaims? = nil, number: UInt64 = 7, apps: AppGates? = nil,
    _ change: (inout EdgeConfiguration) -> Void = { _ in }
  ) {
    var configuration = EdgeConfiguration(
      nodeID: "e", appKeys: AppKeys.generateDevelopment(app: "demo").0)
    change(&configuration)
    session = DeviceSession(
      number: number, codec: .protobuf, claims: claims,
      rules: SessionRules(edge: 9, configuration: configuration, apps: apps), now: Self.start)
  }

  /// An attached session of ann's phone.
  static func attached(
    claims: DeviceClaims = .of(), number: UInt64 = 7, apps: AppGates? = nil,
    _ change: (inout EdgeConfiguration) -> Void = { _ in }
  ) -> SessionMachine {
    var machine = SessionMachine(claims: claims, number: number, apps: apps, change)
    machine.attach(AttachRequest(device: "phone", deviceName: "Ann's phone"))
    machine.turn.actions = []
    return machine
  }

  mutating func attach(
    _ request: AttachRequest = AttachRequest(device: "phone"),
    _ reply: Reply = .attached(forCall: nil)
  ) {
    say(1, .attach(request))
    self.reply(1, .attach(Attach()), reply)
  }

  /// Returns the actions so far, which are then no longer kept.
  mutating func take() -> [DeviceSession.Action] {
    defer { turn.actions = [] }
    return turn.actions
  }

  mutating func say(_ id: UInt64, _ command: ClientCommand) {
    session.received(ClientFrame(id: id, command: command), &turn)
  }

  /// Says a command about a call to bob, or to `callee`.
  mutating func say(_ id: UInt64, _ verb: CallVerb, _ call: CallID, of callee: String = "bob") {
    say(id, .call(CallAddress(callee: callee, call: call), verb))
  }

  mutating func reply(_ id: UInt64, _ body: Command.Body, _ reply: Reply) {
    session.replied(request: id, to: body, reply, &turn)
  }

  mutating func authenticated(_ result: Result<DeviceClaims, AuthFailure>) {
    session.authenticated(result.mapError(CallError.init), &turn)
  }

  mutating func bad(_ code: CallError.Code, id: UInt64 = 0) {
    session.received(bad: FrameError(id: id, error: CallError(code)), &turn)
  }

  mutating func pass(_ span: Span) {
    turn.now = turn.now + span
    session.tick(&turn)
  }
}

// MARK: Calls

extension SessionMachine {
  /// The announcement of the session to a shard's new owner.
  var announced: Attach? {
    if case .attach(let attach) = session.announcement { attach } else { nil }
  }

  /// Places a call to bob, which its shard has then.
  mutating func placed(_ call: CallID, as id: UInt64 = 2) {
    say(id, .place(call))
    reply(id, .place(PlaceRequest(call: call)), .call(.of(call, .placed)))
  }

  mutating func resumed(_ state: CallState, as id: UInt64 = 3) {
    say(id, .resume, state.call)
    reply(id, .call(state.call, .resume), .call(state))
  }

  @discardableResult
  mutating func deliver(
    _ event: Delivery.Event, of call: CallID, callee: String = "bob", version: UInt64 = 1,
    _ at: SourceLocation = #_sourceLocation
  ) -> Delivery {
    let delivery = Delivery(
      call: call, callee: callee, version: version, at: turn.now, event: event)
    let isDelivered = session.willDeliver(delivery)
    #expect(isDelivered, sourceLocation: at)
    return delivery
  }

  /// A call rings at ann's phone. Returns the reports of calls that it crosses.
  mutating func ring(
    _ call: CallID, from caller: Party, callee: String = "ann", version: UInt64 = 1
  ) {
    let invite = Invite(caller: caller, deadline: turn.now + .seconds(30))
    let delivery = deliver(.invite(invite), of: call, callee: callee, version: version)
    if session.mayCross(delivery) { session.reportCrossings(of: call, &turn) }
  }

  /// The reports of crossings so far; no action is kept.
  mutating func crossings() -> [DeviceSession.Action] {
    take().filter { if case .reportCrossing = $0 { true } else { false } }
  }

  /// The reports of answered calls so far; no action is kept.
  mutating func takeReports() -> [Talking] {
    take().compactMap { if case .reportTalking(_, let talking) = $0 { talking } else { nil } }
  }

  /// The calls that shards are notified of when the socket breaks.
  var callsPlaced: [UserKey: [CallID]] {
    var session = session
    return session.takeEnd()?.calls ?? [:]
  }

  mutating func place(_ index: Int, as id: UInt64) {
    say(id, .place(CallID(high: 1, low: UInt64(index))))
  }

  mutating func refuse(_ id: UInt64, _ body: Command.Body, _ code: CallError.Code) {
    session.wasRefused(request: id, body, CallError(code), &turn)
  }
}

extension CallState {
  /// A request about a call to bob.
  static func of(_ call: CallID, _ phase: CallPhase, by party: Party? = nil) -> CallState {
    CallState(call: call, callee: "bob", phase: phase, by: party)
  }
}

extension Command.Body {
  /// The command that `SessionMachine.place` has forwarded.
  static func placing(_ index: Int) -> Command.Body {
    .place(PlaceRequest(call: CallID(high: 1, low: UInt64(index)), deviceName: "Ann's phone"))
  }
}

extension DeviceSession.Action {
  var isForward: Bool { if case .forward = self { true } else { false } }
}

extension DeviceClaims {
  static func of(
    _ user: String = "ann", device: String? = nil, name: String = ""
  ) -> DeviceClaims {
    DeviceClaims(
      app: "demo", user: user, device: device, name: name, expiresAtSeconds: 2_000_000_000)
  }
}

extension AppGates {
  static func of(_ terms: AppTerms) -> AppGates {
    AppGates(["demo": terms], usersMax: 10, registry: nil, now: SessionMachine.start)
  }
}

extension CallError {
  /// By the default limits.
  static let tooFast = CallError(
    .rateLimited, "Too many commands: 20 a second, 60 at once.", retryAfterMilliseconds: 50)
}

func isError(_ id: UInt64, _ code: CallError.Code) -> (DeviceSession.Action) -> Bool {
  { action in
    guard case .reply(id, .error(let error)) = action else { return false }
    return error.code == code
  }
}
