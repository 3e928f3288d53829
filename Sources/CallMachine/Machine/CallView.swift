package import CallCore
internal import CallWire

/// One call as this device sees it, with what it takes to recognise retransmissions.
package struct CallView: Sendable, Equatable {
  package enum Role: Sendable { case caller, callee }

  package let call: CallID
  /// The callee's user id; empty for this device's own user. A call that was diverted to this user has another callee.
  package internal(set) var callee: String
  /// A device that takes the caller's side of a call that is transferred becomes its caller.
  package internal(set) var role: Role
  package internal(set) var phase: CallPhase
  /// Version of the newest delivery or state.
  package internal(set) var version: UInt64 = 0
  /// This device answered and has the call.
  package internal(set) var won = false
  /// This app's run did not know the call until the cluster gave it back, and has sent no command about it yet.
  package internal(set) var isUnclaimed = false
  /// Why it ended, for this device.
  package internal(set) var stop: Stop?
  /// When it stops ringing here, by the cluster's clock; nil: the device does not ring for it, or does not know.
  package internal(set) var deadline: Timestamp?
  /// This device ended the call by itself: it rang past its deadline without a connection.
  package internal(set) var endedLocally = false
  /// The highest version of a delivery that was taken. One that is not higher is a repetition, or late: `after` keeps a
  /// delivery back while one before it is missing.
  var lastApplied: UInt64 = 0
  /// The highest index of the other side's signals, which come in order.
  var lastSignal: UInt64 = 0
  /// The number of the other side's newest move.
  var lastMove: UInt32 = 0
  /// The party at the other side of the answered call; empty: not known.
  var peer = ""
  /// The user who hands over the side for which this device rings; empty: it is no transfer.
  private var transferrer = ""
  /// The number of the newest transfer of this device's side that came to nothing.
  var lastTransfer: UInt32 = 0
  /// The version at which this device took the call over, if it did. Until then the call was over for the device.
  var takenOverAt: UInt64 = 0
  /// The version at which this device's answer won.
  var wonAt: UInt64 = 0

  init(call: CallID, callee: String, role: Role, phase: CallPhase) {
    self.call = call
    self.callee = callee
    self.role = role
    self.phase = phase
  }

  package var isEnded: Bool { phase == .ended }
  /// Whether all that is known is that the call may ring here: its invite has not come.
  var isWaking: Bool { phase == .unknown && role == .callee }

  /// Whether this device has a side of the call; one that rings has none yet.
  var hasCall: Bool { !isEnded && (won || role == .caller) }

  /// Applies a delivery and returns the events that are new to the app.
  mutating func apply(_ delivery: Delivery) -> [CallEvent] {
    guard delivery.version > lastApplied else { return [] }
    lastApplied = delivery.version
    version = max(version, delivery.version)
    switch delivery.event {
    case .invite(let invite): return invited(invite)
    case .ringing(let party): return ringing(party)
    case .answered(let answered): return self.answered(answered)
    case .stop(let stop):
      return delivery.version <= takenOverAt ? [] : stopped(stop, at: delivery.version)
    case .signal(let signal): return fresh([signal])
    case .moved(let moved): return self.moved(moved)
    case .transfer(let news): return transfer(news)
    case .ringsUntil(let deadline): return ringsUntil(deadline)
    }
  }

  /// This device has taken the call over.
  /// - Parameter lastApplied: the highest version of a delivery in the call's part before.
  init(takenOver call: CallAddress, role: Role, _ state: CallState, lastApplied: UInt64) {
    self.init(call: call.call, callee: call.callee, role: role, phase: .answered)
    won = true
    version = state.version
    takenOverAt = state.version
    self.lastApplied = lastApplied
  }

  /// This device's answer was decided.
  mutating func answerDecided(won: Bool, _ state: CallState) -> [CallEvent] {
    version = max(version, state.version)
    guard !isEnded, !self.won else { return [] }
    if won {
      self.won = true
      wonAt = state.version
      phase = .answered
      return [.won(state)]
    }
    return stopped(
      Stop(reason: state.reason ?? .answeredElsewhere, by: state.by, missed: state.missed),
      at: state.version)
  }

  /// Applies a state that came in a reply.
  mutating func apply(_ state: CallState) -> [CallEvent] {
    version = max(version, state.version)
    guard !isEnded else { return [] }
    switch state.phase {
    case .ended:
      return stopped(
        Stop(
          reason: state.reason ?? .failed, by: state.by, missed: state.missed,
          survivor: state.survivor, unreachable: state.unreachable),
        at: state.version)
    case .unknown: return stopped(Stop(reason: .failed), at: state.version)
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
    end(Stop(reason: reason))
  }

  /// The call's deadline has passed, and the cluster cannot be reached.
  mutating func rangOut() -> [CallEvent] {
    endedLocally = true
    return stopped(Stop(reason: .unanswered, missed: true), at: version)
  }

  private mutating func invited(_ invite: Invite) -> [CallEvent] {
    guard role == .callee else { return [] }
    if phase == .ringing || phase == .unknown { deadline = invite.deadline }
    // A ringing device gets the invite again when its session is new to the shard. It carries all
    // candidates, among them those sent while the device was away.
    if phase == .ringing { return fresh(invite.signals) }
    // An invite to a device that has answered or was stopped is a late retransmission.
    guard phase == .unknown else { return [] }
    phase = .ringing
    peer = invite.caller.user
    transferrer = invite.transferredBy?.user ?? ""
    return [.invited(invite)] + fresh(invite.signals)
  }

  private mutating func ringing(_ party: Party) -> [CallEvent] {
    // It comes again when another device alerts after the former ones have stopped.
    guard role == .caller, phase == .unknown || phase == .placed || phase == .ringing else {
      return []
    }
    phase = .ringing
    return [.ringing(by: party)]
  }

  private mutating func ringsUntil(_ deadline: Timestamp) -> [CallEvent] {
    guard phase == .placed || phase == .ringing else { return [] }
    self.deadline = deadline
    return [.ringsUntil(deadline)]
  }

  private mutating func answered(_ answered: Answered) -> [CallEvent] {
    guard phase != .answered, !isEnded else { return [] }
    isUnclaimed = isWaking
    phase = .answered
    if role == .caller { peer = answered.by.user }
    guard role == .callee else { return [.answered(answered)] + fresh(answered.signals) }
    // Only the winner among the callee's devices gets this, when it comes back.
    won = true
    wonAt = version
    let state = CallState(
      call: call, callee: callee, phase: .answered, version: version, by: answered.by)
    return [.won(state)] + fresh(answered.signals)
  }

  /// - Parameter version: the version of the delivery or state that reports it.
  private mutating func stopped(_ stop: Stop, at version: UInt64) -> [CallEvent] {
    guard !isEnded else { return [] }
    // A late reply is about an earlier ringing.
    if version > 0, version < takenOverAt { return [] }
    var stop = stop
    if won, !stop.reason.endsSide {
      // A stop that is not newer than its side is of an earlier ringing: the device that has the call did not lose it.
      guard version > max(wonAt, takenOverAt) else { return [] }
      // It lacks the stop of the side, and the invite to a later ringing, which is over: only a transfer rings again.
      stop = Stop(reason: .transferred)
    }
    end(stop)
    return [.stopped(stop)]
  }

  private mutating func end(_ stop: Stop) {
    phase = .ended
    isUnclaimed = false
    self.stop = stop
  }

  private mutating func moved(_ moved: Moved) -> [CallEvent] {
    guard !isEnded, moved.number > lastMove else { return [] }
    lastMove = moved.number
    peer = moved.to.user
    return [.moved(moved)]
  }

  private mutating func transfer(_ news: TransferNews) -> [CallEvent] {
    guard !isEnded, news.number > lastTransfer else { return [] }
    if news.reason != nil { lastTransfer = news.number }
    return [.transfer(news)]
  }

  /// Whether an invite begins another ringing. The call may be over for this device, or it has a side; or it rings, and
  /// lacks the stop of that ringing, which a shard gives up when the device rings again. One ringing is by the same users
  /// all the time. A device whose own call gave way to this one gets the invite again while it has the call.
  func beginsAnew(_ invite: Invite, at version: UInt64) -> Bool {
    guard invite.ringsAnew else { return false }
    if phase == .ringing {
      return version > lastApplied
        && !(peer.hasBytes(of: invite.caller.user)
          && transferrer.hasBytes(of: invite.transferredBy?.user ?? ""))
    }
    return (isEnded || phase == .answered && invite.merged == nil) && version > self.version
  }

  /// Whether the call is over here and may go on elsewhere.
  var mayGoOnElsewhere: Bool {
    switch stop?.reason {
    case .unanswered, .declined, .busy: true
    default: false
    }
  }

  /// The call is to ring here once more, although it was over for this device.
  /// - Parameter version: the invite's version. A stop before it is out of date.
  func ringingAgain(_ callee: String, at version: UInt64) -> CallView {
    var view = CallView(call: call, callee: callee, role: .callee, phase: .unknown)
    (view.version, view.lastApplied) = (self.version, lastApplied)
    view.takenOverAt = version
    return view
  }

  private mutating func fresh(_ signals: [Signal]) -> [CallEvent] {
    guard !isEnded else { return [] }
    var events: [CallEvent] = []
    for signal in signals where signal.index > lastSignal {
      lastSignal = signal.index
      // A signal of a later version is acknowledged like the others, and is of no use to the app.
      guard signal.kind != .unknown else { continue }
      events.append(.signal(signal))
    }
    return events
  }
}

extension EndReason {
  /// Whether it ends the part of a device that has a side of an answered call.
  fileprivate var endsSide: Bool {
    switch self {
    case .hungUp, .failed, .moved, .transferred: true
    case .answeredElsewhere, .declined, .cancelled, .unanswered, .busy, .unreachable, .glare: false
    }
  }
}
