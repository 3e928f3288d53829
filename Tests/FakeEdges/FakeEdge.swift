package import CallCore
package import CallWire
package import CallmeshClient
import Dispatch
import Synchronization

/// An edge without a network: a transport whose sockets are answered by a function.
package final class FakeEdge: Transport {
  private struct State {
    var report: (@Sendable (SocketEvent) -> Void)?
    var commands: [ClientCommand] = []
    var connections = 0
    var isReachable = true
    var closeCodes: [UInt16?] = []
  }

  private let state = Mutex(State())
  /// Reports nothing from within the client's calls, as the contract of transports wants it.
  private let queue = DispatchQueue(label: "edge")
  private let answer: @Sendable (ClientFrame) -> [ServerFrame]

  /// - Parameter answer: the frames with which a frame is answered, besides those to an attach.
  package init(_ answer: @escaping @Sendable (ClientFrame) -> [ServerFrame] = { _ in [] }) {
    self.answer = answer
  }

  package var commands: [ClientCommand] { state.withLock { $0.commands } }
  package var connections: Int { state.withLock { $0.connections } }
  package var closeCodes: [UInt16?] { state.withLock { $0.closeCodes } }

  package func connect(
    to url: String, subprotocol: String, report: @escaping @Sendable (SocketEvent) -> Void
  ) -> any Socket {
    let isReachable = state.withLock {
      $0.connections += 1
      $0.report = report
      return $0.isReachable
    }
    queue.async { report(isReachable ? .opened : .closed(.failed("no network"))) }
    return FakeSocket(edge: self, report: report)
  }

  /// Sends a frame over the newest connection.
  package func say(_ frame: ServerFrame) { say(bytes: DeviceCodec.protobuf.encode(frame)) }

  package func say(bytes: [UInt8]) {
    guard let report = state.withLock({ $0.report }) else { return }
    queue.async { report(.message(.binary(bytes))) }
  }

  package func say(
    _ call: CallID, _ version: UInt64, callee: String = "me", _ event: Delivery.Event
  ) {
    let at = Timestamp(microseconds: 0)
    say(.delivery(Delivery(call: call, callee: callee, version: version, at: at, event: event)))
  }

  /// Ends the newest connection.
  package func close(_ end: SocketEnd, reachable: Bool = true) {
    let report = state.withLock {
      $0.isReachable = reachable
      return $0.report
    }
    guard let report else { return }
    queue.async { report(.closed(end)) }
  }

  fileprivate func received(
    _ message: SocketMessage, _ report: @escaping @Sendable (SocketEvent) -> Void
  ) {
    guard case .binary(let bytes) = message,
      let frame = bytes.withUnsafeBytes({
        try? DeviceCodec.protobuf.decodeClient($0, limits: CallLimits())
      })
    else { return }
    state.withLock { $0.commands.append(frame.command) }
    let answers = answer(frame)
    queue.async {
      for answer in answers.isEmpty ? Self.standard(frame) : answers {
        report(.message(.binary(DeviceCodec.protobuf.encode(answer))))
      }
    }
  }

  /// An attach is taken; nothing else is answered.
  private static func standard(_ frame: ClientFrame) -> [ServerFrame] {
    guard case .attach = frame.command else { return [] }
    return [.reply(id: frame.id, .attached(session))]
  }

  /// The reply to an attach.
  package static let session = AttachedInfo(
    session: "s", user: "me", device: "d1", pingSeconds: 25,
    serverTime: Timestamp(microseconds: 1_000_000_000))

  fileprivate func noteClose(_ code: UInt16?) { state.withLock { $0.closeCodes.append(code) } }
}

private struct FakeSocket: Socket {
  let edge: FakeEdge
  let report: @Sendable (SocketEvent) -> Void

  func send(_ message: SocketMessage) { edge.received(message, report) }
  func close(code: UInt16?) { edge.noteClose(code) }
}

/// A clock that a test turns.
package final class ManualClock: DeviceClock {
  private struct State {
    var now = Timestamp(microseconds: 1_000_000)
    var wakes: [(at: Timestamp, action: @Sendable () -> Void)] = []
  }

  private let state = Mutex(State())

  package init() {}

  package var now: Timestamp { state.withLock { $0.now } }
  /// Timers that wait.
  package var wakeCount: Int { state.withLock { $0.wakes.count } }

  /// A time that has come already wakes soon, as that of a real clock does: a test may turn the clock between an event and the
  /// timer that follows it.
  package func wake(at time: Timestamp, _ action: @escaping @Sendable () -> Void) {
    let isDue = state.withLock { state in
      guard state.now < time else { return true }
      state.wakes.append((time, action))
      return false
    }
    // Not at once: whoever asks holds its lock.
    if isDue { DispatchQueue.global().async(execute: action) }
  }

  package func pass(_ span: Span) {
    let due = state.withLock { state in
      state.now = state.now + span
      let due = state.wakes.filter { $0.at <= state.now }
      state.wakes.removeAll { $0.at <= state.now }
      return due
    }
    for wake in due { wake.action() }
  }
}

/// A device at a fake edge.
package struct Bench {
  package let edge: FakeEdge
  package let clock = ManualClock()
  package let device: Device
  package let events: EventSequence<Device.Event>

  package init(_ edge: FakeEdge = FakeEdge(), _ change: (inout DeviceOptions) -> Void = { _ in })
    throws
  {
    self.edge = edge
    var options = DeviceOptions(edges: ["wss://edge.example"], device: "d1")
    options.token = "token"
    change(&options)
    device = try Device(options, transport: edge, clock: clock)
    events = device.events
  }

  /// Waits for an event.
  package func first<Value>(_ wanted: (Device.Event) -> Value?) async -> Value? {
    for await event in events { if let value = wanted(event) { return value } }
    return nil
  }

  package func attach() async {
    device.start()
    _ = await first { if case .attached(let session) = $0 { session } else { nil } }
  }

  /// Rings with a call of `you`.
  package func ring(_ id: CallID, deadline: Int64 = 1_030_000_000) async throws -> Call {
    edge.say(id, 1, .invite(Self.invite(deadline: deadline)))
    let call = await first { if case .incoming(let call) = $0 { call } else { nil } }
    guard let call else { throw NoCall() }
    return call
  }

  package static func invite(deadline: Int64 = 1_030_000_000) -> Invite {
    Invite(
      caller: Party(user: "you", device: "x", name: "You"),
      deadline: Timestamp(microseconds: deadline), description: "offer")
  }

  package func ended() async -> Call? {
    await first { if case .ended(let call) = $0 { call } else { nil } }
  }

  package struct NoCall: Error {
    package init() {}
  }
}
