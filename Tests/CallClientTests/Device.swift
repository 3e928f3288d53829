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

  init(edges: [String] = ["a", "b", "c"]) {
    machine = ClientMachine(.init(edges: edges, token: "t", device: "d1"))
  }

  static func configuration(
    _ change: (inout ClientMachine.Configuration) -> Void
  ) -> ClientMachine.Configuration {
    var configuration = ClientMachine.Configuration(edges: ["a"], token: "t", device: "d1")
    change(&configuration)
    return configuration
  }

  mutating func take() -> [ClientMachine.Action] {
    defer { turn.actions = [] }
    return turn.actions
  }

  mutating func start() { machine.start(&turn) }
  mutating func open() { machine.opened(&turn) }
  mutating func readCompleted() { machine.readCompleted(&turn) }
  mutating func close(_ code: UInt16? = nil) { machine.closed(code: code, &turn) }

  mutating func hear(_ frame: ServerFrame) {
    machine.received(frame, &turn)
  }

  mutating func hear(_ call: CallID, _ version: UInt64, _ event: Delivery.Event) {
    hear(
      .delivery(Delivery(call: call, callee: "me", version: version, at: now, event: event)))
  }

  mutating func pass(_ span: Span) {
    turn.now = now + span
    machine.fire(&turn)
  }

  @discardableResult mutating func say(_ command: ClientCommand) -> UInt64? {
    machine.submit(command, &turn)
  }

  /// Attaches; forgets what that took.
  mutating func attach(_ info: AttachedInfo = .sample) {
    start()
    open()
    for frame in take().frames { hear(.reply(id: frame.id, .attached(info))) }
    _ = take()
  }

  /// Expects a wait before the next attempt, between half of `most` and all of it, in microseconds; lets it pass.
  mutating func expectWait(upTo most: Int64, sourceLocation: SourceLocation = #_sourceLocation) {
    guard case .waiting(let until) = machine.state else {
      Issue.record("does not wait", sourceLocation: sourceLocation)
      return
    }
    #expect(
      (most / 2...most).contains((until - now).microseconds), sourceLocation: sourceLocation)
    pass(until - now)
  }

  /// Comes back after its connection broke.
  mutating func comeBack() {
    machine.reconnectNow(&turn)
    open()
    for frame in take().frames { hear(.reply(id: frame.id, .attached(.sample))) }
  }
}

extension AttachedInfo {
  static let sample = AttachedInfo(
    session: "s", user: "me", device: "d1", pingSeconds: 25,
    serverTime: Timestamp(microseconds: 0))
}

extension [ClientMachine.Action] {
  var frames: [ClientFrame] { compactMap { if case .send(let frame) = $0 { frame } else { nil } } }
  var events: [ClientEvent] { compactMap { if case .event(let event) = $0 { event } else { nil } } }
  var callEvents: [CallEvent] {
    events.compactMap { if case .call(_, let event) = $0 { event } else { nil } }
  }
}
