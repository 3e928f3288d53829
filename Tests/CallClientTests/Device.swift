import CallClient
import CallCore
import CallWire
import Testing

/// A machine with a clock to turn and what it asked for.
struct Device {
  var machine: ClientMachine
  var turn = ClientMachine.Turn(
    now: Timestamp(microseconds: 1_000_000), random: SplitMix64(seed: 1))
  var now: Timestamp { turn.now }

  init(
    edges: [String] = ["a", "b", "c"],
    _ change: (inout ClientMachine.Configuration) -> Void = { _ in }
  ) {
    var configuration = ClientMachine.Configuration(edges: edges, token: "t", device: "d1")
    change(&configuration)
    machine = ClientMachine(configuration)
  }

  /// One that is attached; what that took is forgotten.
  static func attached(
    edges: [String] = ["a", "b", "c"],
    _ change: (inout ClientMachine.Configuration) -> Void = { _ in }
  ) -> Device {
    var device = Device(edges: edges, change)
    device.attach()
    return device
  }

  mutating func take() -> [ClientMachine.Action] {
    defer { turn.actions = [] }
    return turn.actions
  }

  /// The commands that were sent.
  mutating func said() -> [ClientCommand] { take().frames.map(\.command) }

  mutating func start() { machine.start(&turn) }
  mutating func open() { machine.opened(&turn) }
  mutating func readCompleted() { machine.readCompleted(&turn) }
  mutating func close(_ code: UInt16? = nil) { machine.closed(code: code, &turn) }

  mutating func pass(_ span: Span) {
    turn.now = now + span
    machine.fire(&turn)
  }

  /// The same while the edge's frames arrive.
  mutating func passAlive(_ span: Span) {
    machine.noteContact(now: now)
    pass(span)
  }

  @discardableResult mutating func say(_ command: ClientCommand) -> UInt64? {
    machine.submit(command, &turn)
  }

  // MARK: What the edge says

  mutating func hear(_ frame: ServerFrame) {
    machine.received(frame, &turn)
  }

  /// - Parameter callee: the user who was called, if not the device's own.
  mutating func hear(
    _ call: CallID, _ version: UInt64, callee: String = "me", _ event: Delivery.Event
  ) {
    hear(.delivery(Delivery(call: call, callee: callee, version: version, at: now, event: event)))
  }

  mutating func reply(_ request: UInt64?, _ reply: ServerReply) {
    hear(.reply(id: request ?? 0, reply))
  }

  mutating func refuse(_ request: UInt64?, _ code: CallError.Code) {
    reply(request, .error(CallError(code)))
  }

  /// Answers the attach that was just sent.
  mutating func answerAttach(_ reply: ServerReply = .attached(.sample)) {
    for frame in take().frames { hear(.reply(id: frame.id, reply)) }
  }

  // MARK: Connections

  /// Attaches; forgets what that took.
  mutating func attach(_ info: AttachedInfo = .sample) {
    start()
    open()
    answerAttach(.attached(info))
    _ = take()
  }

  /// Comes back after its connection broke.
  mutating func comeBack(_ info: AttachedInfo = .sample) {
    machine.reconnectNow(&turn)
    open()
    answerAttach(.attached(info))
  }

  /// The time until the next attempt to connect, in microseconds; expects that there is one. Lets it pass.
  @discardableResult mutating func passWait(
    sourceLocation: SourceLocation = #_sourceLocation
  ) -> Int64 {
    guard case .waiting(let until) = machine.state else {
      Issue.record("does not wait", sourceLocation: sourceLocation)
      return 0
    }
    let wait = until - now
    pass(wait)
    return wait.microseconds
  }

  /// Expects a wait between half of `most` and all of it, in microseconds; lets it pass.
  mutating func expectWait(upTo most: Int64, sourceLocation: SourceLocation = #_sourceLocation) {
    let wait = passWait(sourceLocation: sourceLocation)
    #expect((most / 2...most).contains(wait), sourceLocation: sourceLocation)
  }

  // MARK: Calls

  /// Rings with a call of `you`.
  mutating func ring(_ call: CallID, _ version: UInt64 = 5, until deadline: Int64 = 31_000_000) {
    hear(call, version, .invite(.sample(until: deadline)))
  }

  @discardableResult
  mutating func place(_ address: CallAddress, description: String = "") -> UInt64? {
    say(.place(address, PlaceRequest(call: address.call, description: description)))
  }

  /// Places a call that the cluster has from then on.
  mutating func havePlaced(_ address: CallAddress) {
    let state = CallState(call: address.call, callee: address.callee, phase: .placed, version: 1)
    reply(place(address), .call(state))
  }

  /// The acknowledgements that leave after a burst; nil: another frame leaves, or none.
  mutating func acknowledged() -> [AckItem]? {
    readCompleted()
    pass(.milliseconds(150))
    let frames = take().frames
    guard frames.count == 1, frames[0].id == 0, case .ack(let items) = frames[0].command else {
      return nil
    }
    return items
  }
}

extension AttachedInfo {
  static let sample = AttachedInfo(
    session: "s", user: "me", device: "d1", pingSeconds: 25,
    serverTime: Timestamp(microseconds: 0))
}

extension Party {
  static let me = Party(user: "me", device: "d1")
  static let you = Party(user: "you", device: "x")
}

extension Invite {
  static func sample(until deadline: Int64 = 31_000_000) -> Invite {
    Invite(caller: .you, deadline: Timestamp(microseconds: deadline))
  }
}

extension [ClientMachine.Action] {
  var frames: [ClientFrame] { compactMap { if case .send(let frame) = $0 { frame } else { nil } } }
  var events: [ClientEvent] { compactMap { if case .event(let event) = $0 { event } else { nil } } }
  var callEvents: [CallEvent] {
    events.compactMap { if case .call(_, let event) = $0 { event } else { nil } }
  }
}
