package import CallCore
internal import CallWire

/// The drain: sending all devices to other edges.
extension EdgeLoop {
  struct Drain {
    var schedule: DrainSchedule
    /// Sessions that have not been notified, the next one last.
    var waiting: [UInt64]
    /// How many were notified, or had gone before.
    var notified = 0
    /// Whether sessions that stay are closed in the end.
    let closes: Bool
  }

  /// While the loop drains, no device attaches and no new call is placed.
  var isDraining: Bool { drain != nil }

  /// Begins to send every session elsewhere, those in a call last. The loop's ticks do the rest.
  /// - Parameters:
  ///   - span: how long that may take.
  ///   - closes: whether sessions that have not gone by then are closed.
  /// - Returns: how many sessions there are.
  @discardableResult
  func beginDrain(over span: Span, closes: Bool = true) -> Int {
    let handlers = devicesIdleFirst
    let schedule = DrainSchedule(begins: now, span: span, count: handlers.count)
    drain = Drain(schedule: schedule, waiting: handlers.reversed().map(\.number), closes: closes)
    shared.setDraining(true)
    continueDrain(now: now)
    flushSockets()
    flushCommands(all: true)
    return handlers.count
  }

  /// How long an edge that is cut off takes at most to notify its devices.
  static var cutOffSpread: Span { .seconds(10) }

  /// The only loop of an edge is cut off from the cluster, or no longer is. Unlike a drain that was asked for,
  /// this one lets a device stay that finds no other edge.
  func reachChanged(_ isCutOff: Bool) {
    if let drain {
      if !drain.closes, !isCutOff { endDrain() }
    } else if isCutOff {
      beginDrain(over: Self.cutOffSpread, closes: false)
    }
  }

  /// Takes devices and calls again. Devices that were notified still go.
  func endDrain() {
    drain = nil
    shared.setDraining(false)
  }

  /// Notifies and closes the sessions whose time has come.
  func continueDrain(now: Timestamp) {
    guard var drain = self.drain else { return }
    let due = drain.schedule.notified(at: now)
    while drain.notified < due, let number = drain.waiting.popLast() {
      drain.notified += 1
      device(number)?.send(.notice(goAway))
    }
    let stay = drain.closes ? drain.schedule.mayStay(of: sessionCount, at: now) : .max
    self.drain = drain
    if stay < .max { closeSessions(leaving: stay) }
  }

  /// Closes sessions until at most `count` are left, those in a call last.
  func closeSessions(leaving count: Int) {
    let surplus = sessionCount - max(0, count)
    guard surplus > 0 else { return }
    let now = self.now
    for handler in devicesIdleFirst.prefix(surplus) {
      handler.handle(at: now) { $0.asked(toClose: goAway, &$1) }
    }
    flushSockets()
    flushCommands(all: true)
  }

  /// Closes every socket.
  func closeAll() {
    for handler in devicesIdleFirst + closing.values { handler.abort() }
    for handler in Array(requests.values) { handler.abort() }
    flushCommands(all: true)
  }

  /// How many WebSocket connections there are that are not closing.
  var sessionCount: Int {
    endpoints.values.count { if case .device = $0 { true } else { false } }
  }

  /// The sessions, those in a call last.
  private var devicesIdleFirst: [WebSocketHandler] {
    let now = self.now
    var idle: [WebSocketHandler] = []
    var inCall: [WebSocketHandler] = []
    for case .device(let handler) in endpoints.values {
      if handler.session.isInCall(at: now) { inCall.append(handler) } else { idle.append(handler) }
    }
    return idle + inCall
  }

  private var goAway: Notice {
    Notice(kind: .goAway, message: "This edge goes away. Connect to another.")
  }
}

/// When an event loop that drains notifies its sessions, and when it closes those that stay. It spreads both, since
/// all devices of an edge that attach elsewhere at the same moment would overload the other edges.
///
/// In the first two thirds of the time it notifies the sessions at an even rate of at least 250 a second, so that a
/// small edge is drained soon. Their devices then leave by themselves. In the last third it closes the sessions that
/// are left, at an even rate.
package struct DrainSchedule: Sendable {
  package let begins: Timestamp
  /// How long the whole drain takes.
  package let span: Span
  /// How many sessions there were when it began.
  package let count: Int
  private let notifiedPerSecond: Double
  /// How many sessions there were when closing began.
  private var stayed: Int?

  package static let notifiedPerSecondMin = 250.0

  package init(begins: Timestamp, span: Span, count: Int) {
    self.begins = begins
    self.span = span
    self.count = count
    let seconds = Double(span.microseconds) / 1_000_000 * 2 / 3
    notifiedPerSecond =
      seconds > 0 ? max(Double(count) / seconds, Self.notifiedPerSecondMin) : .infinity
  }

  private var closingBegins: Timestamp {
    begins + Span(microseconds: span.microseconds * 2 / 3)
  }

  /// How many sessions have to be notified by now.
  package func notified(at now: Timestamp) -> Int {
    guard now < closingBegins else { return count }
    let seconds = Double((now - begins).microseconds) / 1_000_000
    return min(count, Int(seconds * notifiedPerSecond) + 1)
  }

  /// How many sessions may be left now.
  /// - Parameter present: how many there are.
  package mutating func mayStay(of present: Int, at now: Timestamp) -> Int {
    guard closingBegins <= now else { return .max }
    let stayed = self.stayed ?? present
    self.stayed = stayed
    let left = (begins + span - now).microseconds
    let third = span.microseconds - span.microseconds * 2 / 3
    guard left > 0, third > 0 else { return 0 }
    return Int(Int64(stayed) * left / third)
  }
}
