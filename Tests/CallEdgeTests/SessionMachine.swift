import CallAuth
import CallCore
import CallEdge
import CallWire

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

  init(claims: DeviceClaims? = nil, terms: AppTerms) {
    let gates = AppGates(["demo": terms], usersMax: 10, registry: nil, now: Self.start)
    self.init(claims: claims, apps: gates)
  }

  /// An attached session of ann's phone.
  static func attached(
    number: UInt64 = 7, apps: AppGates? = nil,
    _ change: (inout EdgeConfiguration) -> Void = { _ in }
  ) -> SessionMachine {
    var machine = SessionMachine(claims: .of(), number: number, apps: apps, change)
    machine.say(1, .attach(AttachRequest(device: "phone", deviceName: "Ann's phone")))
    machine.reply(1, .attach(Attach()), .attached(forCall: nil))
    machine.turn.actions = []
    return machine
  }

  /// Returns the actions so far, which are then no longer kept.
  mutating func take() -> [DeviceSession.Action] {
    defer { turn.actions = [] }
    return turn.actions
  }

  mutating func say(_ id: UInt64, _ command: ClientCommand) {
    session.received(ClientFrame(id: id, command: command), &turn)
  }

  mutating func reply(_ id: UInt64, _ body: Command.Body, _ reply: Reply) {
    session.replied(request: id, to: body, reply, &turn)
  }

  mutating func authenticated(_ result: Result<DeviceClaims, AuthFailure>) {
    session.authenticated(result.mapError(CallError.init), &turn)
  }

  mutating func bad(_ code: CallError.Code, id: UInt64 = 0) {
    session.received(
      bad: FrameError(id: id, error: CallError(code)), &turn)
  }

  mutating func pass(_ span: Span) {
    turn.now = turn.now + span
    session.tick(&turn)
  }
}

extension SessionMachine {
  mutating func place(_ index: Int, as id: UInt64) {
    let call = CallID(high: 1, low: UInt64(index))
    say(id, .place(CallAddress(callee: "bob", call: call), PlaceRequest(call: call)))
  }
}

extension SessionMachine {
  mutating func refuse(
    _ id: UInt64, _ body: Command.Body, _ code: CallError.Code
  ) {
    session.wasRefused(request: id, body, CallError(code), &turn)
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
  static func of(_ user: String = "ann", device: String? = nil) -> DeviceClaims {
    DeviceClaims(app: "demo", user: user, device: device, expiresAtSeconds: 2_000_000_000)
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
