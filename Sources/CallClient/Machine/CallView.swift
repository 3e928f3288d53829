package import CallCore
internal import CallWire

/// One call as this device sees it, with what it takes to recognise retransmissions.
package struct CallView: Sendable, Equatable {
  package enum Role: Sendable { case caller, callee }

  package let call: CallID
  /// The callee's user id; empty for this device's own user. A call that was diverted to this user has another callee.
  package internal(set) var callee: String
  package let role: Role
  package internal(set) var phase: CallPhase
  /// Version of the newest delivery or state.
  package internal(set) var version: UInt64 = 0
  /// This device answered and has the call.
  package internal(set) var won = false
  /// Why it ended, for this device.
  package internal(set) var stop: Stop?
  /// Versions received, newest last. The highest one is not enough: a lost delivery is
  /// retransmitted after younger ones have arrived.
  var heard: [UInt64] = []
  /// The highest version of a delivery.
  var lastTaken: UInt64 = 0
  /// The highest index of the other side's signals, which come in order.
  var lastSignal: UInt64 = 0
  /// The number of the other side's newest move.
  var lastMove: UInt32 = 0
  /// Of a call that this device has taken over: the version at that time. Until then it was over for the device.
  var takenOverAt: UInt64 = 0

  static let heardMax = 32

  init(call: CallID, callee: String, role: Role, phase: CallPhase) {
    self.call = call
    self.callee = callee
    self.role = role
    self.phase = phase
  }

  package var isEnded: Bool { phase == .ended }

  /// Whether this device has a side of the call; one that rings has none yet.
  var hasCall: Bool { !isEnded && (won || role == .caller) }

  /// Applies a delivery and returns the events that are new to the app.
  mutating func take(_ delivery: Delivery) -> [CallEvent] {
    lastTaken = max(lastTaken, delivery.version)
    guard note(delivery.version) else { return [] }
    switch delivery.event {
    case .invite(let invite): return invited(invite)
    case .ringing(let party): return ringing(party)
    case .answered(let answered): return self.answered(answered)
    case .stop(let stop): return delivery.version <= takenOverAt ? [] : stopped(stop)
    case .signal(let signal): return fresh([signal])
    case .moved(let moved): return self.moved(moved)
    }
  }

  /// This device has taken the call over.
  /// - Parameter versions: those received in the call's part before.
  init(takenOver call: CallAddress, role: Role, _ state: CallState, versions: [UInt64]) {
    self.init(call: call.call, callee: call.callee, role: role, phase: .answered)
    won = true
    version = state.version
    takenOverAt = state.version
    heard = versions
  }

  /// This device's answer was decided.
  mutating func answerDecided(won: Bool, _ state: CallState) -> [CallEvent] {
    version = max(version, state.version)
    guard !isEnded, !self.won else { return [] }
    if won {
      self.won = true
      phase = .answered
      return [.won(state)]
    }
    return stopped(
      Stop(reason: state.reason ?? .answeredElsewhere, by: state.by, missed: state.missed))
  }

  /// Applies a state that came in a reply.
  mutating func take(_ state: CallState) -> [CallEvent] {
    version = max(version, state.version)
    guard !isEnded else { return [] }
    switch state.phase {
    case .ended:
      return stopped(Stop(reason: state.reason ?? .failed, by: state.by, missed: state.missed))
    case .unknown: return stopped(Stop(reason: .failed))
    // The answer itself comes as a delivery, with the description.
    case .answered: return []
    // A callee's device rings when the invite comes, which holds more than the state.
    case .placed, .ringing:
      if role == .caller, phase == .unknown { phase = state.phase }
      return []
    }
  }

  /// This device ended the call, or its part in it, and the cluster agreed.
  mutating func left(_ reason: EndReason) {
    guard !isEnded else { return }
    phase = .ended
    stop = Stop(reason: reason)
  }

  /// Returns false for a version that was received before.
  private mutating func note(_ version: UInt64) -> Bool {
    guard !heard.contains(version) else { return false }
    if heard.count == Self.heardMax { heard.removeFirst() }
    heard.append(version)
    self.version = max(self.version, version)
    return true
  }

  private mutating func invited(_ invite: Invite) -> [CallEvent] {
    guard role == .callee else { return [] }
    // A ringing device gets the invite again when its session is new to the shard. It carries all
    // candidates, among them those sent while the device was away.
    if phase == .ringing { return fresh(invite.signals) }
    // An invite to a device that has answered or was stopped is a late retransmission.
    guard phase == .unknown else { return [] }
    phase = .ringing
    return [.invited(invite)] + fresh(invite.signals)
  }

  private mutating func ringing(_ party: Party) -> [CallEvent] {
    guard role == .caller, phase == .unknown || phase == .placed else { return [] }
    phase = .ringing
    return [.ringing(by: party)]
  }

  private mutating func answered(_ answered: Answered) -> [CallEvent] {
    guard phase != .answered, !isEnded else { return [] }
    phase = .answered
    guard role == .callee else { return [.answered(answered)] + fresh(answered.signals) }
    // Only the winner among the callee's devices gets this, when it comes back.
    won = true
    let state = CallState(
      call: call, callee: callee, phase: .answered, version: version, by: answered.by)
    return [.won(state)] + fresh(answered.signals)
  }

  private mutating func stopped(_ stop: Stop) -> [CallEvent] {
    guard !isEnded else { return [] }
    // Who has the call accepts its end only, or that another device took it over; never that it lost.
    if won, stop.reason != .hungUp, stop.reason != .failed, stop.reason != .moved { return [] }
    phase = .ended
    self.stop = stop
    return [.stopped(stop)]
  }

  private mutating func moved(_ moved: Moved) -> [CallEvent] {
    guard !isEnded, moved.number > lastMove else { return [] }
    lastMove = moved.number
    return [.moved(moved)]
  }

  private mutating func fresh(_ signals: [Signal]) -> [CallEvent] {
    guard !isEnded else { return [] }
    var events: [CallEvent] = []
    for signal in signals where signal.index > lastSignal {
      lastSignal = signal.index
      // Of a later version: acknowledged like the others, and of no use to the app.
      guard signal.kind != .unknown else { continue }
      events.append(.signal(signal))
    }
    return events
  }
}
