internal import CallCore
internal import CallWire

/// How an event loop gives its devices up.
extension EdgeLoop {
  struct Drain {
    var schedule: DrainSchedule
    /// Sessions that have not been told yet; the next is the last.
    var untold: [UInt64]
    /// How many were told, or had gone before.
    var told = 0
    /// Whether those that stay are closed in the end.
    let closes: Bool
  }

  /// Why an edge sends its devices elsewhere.
  enum Leave {
    /// It is asked to stop.
    case drained
    /// No shard answers it. Whoever finds no other edge may stay.
    case cutOff
  }

  var leave: Leave? { drain.map { $0.closes ? .drained : .cutOff } }

  /// Nobody attaches, and no new call is placed.
  var draining: Bool { drain != nil }

  /// Begins to send every session elsewhere, within `span`: those in a call last. The loop's ticks
  /// do the rest.
  /// - Parameter closes: whether who has not gone by then is closed.
  /// - Returns: how many sessions there are.
  @discardableResult
  func beginDrain(over span: Span, closes: Bool = true) -> Int {
    let handlers = devicesIdleFirst
    let schedule = DrainSchedule(begins: now, span: span, count: handlers.count)
    drain = Drain(
      schedule: schedule, untold: handlers.reversed().map(\.number), closes: closes)
    shared.rules.isDraining = true
    continueDrain(now: now)
    flushTouched()
    flushCommands(all: true)
    return handlers.count
  }

  /// Over what time devices of an edge that is cut off are told, at most.
  static var cutOffSpread: Span { .seconds(10) }

  /// An edge of one loop, which nobody drives but itself, is cut off, or not any more.
  func reachChanged(_ isCutOff: Bool) {
    switch leave {
    case nil: if isCutOff { beginDrain(over: Self.cutOffSpread, closes: false) }
    case .cutOff: if !isCutOff { endDrain() }
    case .drained: break
    }
  }

  /// Takes devices and calls again. Who was told to go goes.
  func endDrain() {
    drain = nil
    shared.rules.isDraining = false
  }

  /// Tells and closes the sessions whose time has come.
  func continueDrain(now: Timestamp) {
    guard var drain = self.drain else { return }
    let due = drain.schedule.told(at: now)
    while drain.told < due, let number = drain.untold.popLast() {
      drain.told += 1
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
    for handler in devicesIdleFirst.prefix(surplus) { handler.close(goAway, now: now) }
    flushTouched()
    flushCommands(all: true)
  }

  /// Closes every socket.
  func closeAll() {
    for handler in devicesIdleFirst + closing.values { handler.abort() }
    for handler in Array(requests.values) { handler.abort() }
    flushCommands(all: true)
  }

  /// Connections of devices that are not closing.
  var sessionCount: Int {
    endpoints.values.count { if case .device = $0 { true } else { false } }
  }

  /// Whoever rings, talks or calls comes last.
  private var devicesIdleFirst: [WebSocketHandler] {
    let now = self.now
    var idle: [WebSocketHandler] = []
    var inCall: [WebSocketHandler] = []
    for case .device(let handler) in endpoints.values {
      if handler.isInCall(at: now) { inCall.append(handler) } else { idle.append(handler) }
    }
    return idle + inCall
  }

  private var goAway: Notice {
    Notice(kind: .goAway, message: "This edge goes away. Connect to another.")
  }
}
