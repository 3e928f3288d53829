public import CallCore

/// One call as this device knows it. Keeps what is needed to tell news from repetition.
public struct CallView: Sendable, Equatable {
  public enum Role: Sendable { case caller, callee }

  public let call: CallID
  /// Of the callee; empty for this device's own user.
  public let callee: String
  public let role: Role
  public internal(set) var phase: CallPhase
  /// Of the newest thing heard.
  public internal(set) var version: UInt64 = 0
  /// This device answered and has the call.
  public internal(set) var won = false
  /// Why it ended, for this device.
  public internal(set) var stop: Stop?
  /// Versions heard, newest last. Not only the highest: what was lost between cluster and device
  /// is repeated after younger deliveries have arrived.
  var heard: [UInt64] = []
  /// The highest version of a delivery that was taken.
  var lastTaken: UInt64 = 0
  /// The highest index of a signal of the other side. They come in order.
  var lastSignal: UInt64 = 0

  static let heardMax = 32

  init(call: CallID, callee: String, role: Role, phase: CallPhase) {
    self.call = call
    self.callee = callee
    self.role = role
    self.phase = phase
  }

  public var isEnded: Bool { phase == .ended }

  /// Takes in a delivery and returns what is news in it.
  mutating func take(_ delivery: Delivery) -> [CallEvent] {
    lastTaken = max(lastTaken, delivery.version)
    guard note(delivery.version) else { return [] }
    switch delivery.event {
    case .invite(let invite): return invited(invite)
    case .ringing(let party): return ringing(party)
    case .answered(let answered): return self.answered(answered)
    case .stop(let stop): return stopped(stop)
    case .signal(let signal): return fresh([signal])
    }
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

  /// The cluster told the state in a reply.
  mutating func take(_ state: CallState) -> [CallEvent] {
    version = max(version, state.version)
    guard !isEnded else { return [] }
    switch state.phase {
    case .ended:
      return stopped(Stop(reason: state.reason ?? .failed, by: state.by, missed: state.missed))
    case .unknown: return stopped(Stop(reason: .failed))
    // The answer itself comes as a delivery, with the description.
    case .answered: return []
    // A callee's device rings when the invite comes, which has what the state has not.
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

  /// False for a version heard before.
  private mutating func note(_ version: UInt64) -> Bool {
    guard !heard.contains(version) else { return false }
    if heard.count == Self.heardMax { heard.removeFirst() }
    heard.append(version)
    self.version = max(self.version, version)
    return true
  }

  private mutating func invited(_ invite: Invite) -> [CallEvent] {
    guard role == .callee else { return [] }
    // To a device that rings an invite is repeated when its session is new to the shard. It carries all
    // candidates, among them those that were sent while the device was away.
    if phase == .ringing { return fresh(invite.signals) }
    // An invite to a device that talks or was stopped is an old one.
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
    // Of the callee's devices only the winner hears this, when it comes back.
    won = true
    let state = CallState(
      call: call, callee: callee, phase: .answered, version: version, by: answered.by)
    return [.won(state)] + fresh(answered.signals)
  }

  private mutating func stopped(_ stop: Stop) -> [CallEvent] {
    guard !isEnded else { return [] }
    // Whoever won is told of the call's end only, never that it lost.
    if won, stop.reason != .hungUp, stop.reason != .failed { return [] }
    phase = .ended
    self.stop = stop
    return [.stopped(stop)]
  }

  private mutating func fresh(_ signals: [Signal]) -> [CallEvent] {
    guard !isEnded else { return [] }
    var events: [CallEvent] = []
    for signal in signals where signal.index > lastSignal {
      lastSignal = signal.index
      events.append(.signal(signal))
    }
    return events
  }
}
