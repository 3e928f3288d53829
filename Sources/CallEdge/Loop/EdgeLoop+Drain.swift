internal import CallCore
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
    shared.rules.isDraining = true
    continueDrain(now: now)
    flushSockets()
    flushCommands(all: true)
    return handlers.count
  }

  /// How long an edge that is cut off takes at most to notify its devices.
  static var cutOffSpread: Span { .seconds(10) }

  /// The only loop of an edge is cut off from the cluster, or not any more. Unlike a drain that was asked for,
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
    shared.rules.isDraining = false
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
      handler.handle { $0.asked(toClose: goAway, now: now, into: &$1) }
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
