import CallCore
import CallWire

/// Records what a device receives, and notices what no device may ever receive at that point.
extension CallRecord {
  mutating func receive(_ device: Int, _ delivery: Delivery, at now: Timestamp) {
    var line = TraceLine(at: now, device: Int32(device), version: delivery.version, what: .invite)
    defer { note(line) }
    change(device) { $0.isTold = true }
    switch delivery.event {
    case .invite(let invite):
      // The cluster's clock may differ from ours; how long it still rings does not.
      let rest = now + (invite.deadline - delivery.at)
      ringsOutAt = min(ringsOutAt ?? rest, rest)
      invited(device, delivery.version, at: now)
    case .ringing(let party):
      line.what = .ringing
      line.by = Int32(roster.device(party) ?? -1)
    case .answered(let answered):
      line.what = .answered
      let by = roster.device(answered.by) ?? -1
      line.by = Int32(by)
      self.answered(device, by: by, delivery.version, at: now)
    case .stop(let stop):
      let end = DeviceRecord.End(
        reason: stop.reason, by: stop.by.map { roster.device($0) ?? -1 }, missed: stop.missed,
        version: delivery.version, at: now)
      line.what = .stop
      line.by = Int32(end.by ?? -1)
      line.detail = stop.reason.rawValue
      stopped(device, end)
    case .signal(let signal):
      line.what = .signalled
      line.detail = UInt8(clamping: NumberedCandidate(body: signal.body)?.number ?? 0)
    }
  }

  private mutating func invited(_ device: Int, _ version: UInt64, at now: Timestamp) {
    let name = name(of: device)
    guard facts.callees.contains(device), let before = record(of: device) else {
      violate(.toldToRingAfterEnd, "\(name) was told to ring, but is not the callee's")
      return
    }
    let isOld = before.end.map { version < $0.version } ?? false
    let isOvertaken =
      if let end = before.end, let attached = before.attachedAt {
        isOld && end.at <= attached && now < attached + CallChecker.skew
      } else {
        false
      }
    func odd(_ what: String, isLate: Bool = false) {
      oddities.append(
        Oddity(
          rule: before.wasWoken ? .wokenRangAfterEnd : .toldToRingAfterEnd, device: device, at: now,
          isOld: isOld || isLate, isOvertaken: isOvertaken,
          what: "\(name) was told to ring after \(what)"))
    }
    if before.isOver {
      odd("it was told of the end")
    } else if let over = ringOverAt, over + CallChecker.skew < now {
      odd("the caller knew of the end")
    } else if (ringsOutAt ?? deadline) + CallChecker.skew < now {
      // By its own deadline nobody says that after it.
      odd("the ring timeout", isLate: true)
    }
    change(device) { if $0.invitedAt == nil { $0.invitedAt = now } }
  }

  private mutating func answered(_ device: Int, by: Int, _ version: UInt64, at now: Timestamp) {
    guard device == facts.caller else {
      // A winner that came back is told so.
      if by == device { change(device) { $0.wonAt = $0.wonAt ?? now } }
      return
    }
    ringOverAt = ringOverAt ?? now
    if let first = answeredBy, first != by {
      violate(.twoWinners, "the caller was told of a second answer")
    }
    answeredBy = answeredBy ?? by
    answeredToldAt = answeredToldAt ?? now
    if let end = caller.end {
      oddities.append(
        Oddity(
          rule: .duplicateEnd, device: device, at: now, isOld: version < end.version,
          what: "the caller was told of an answer after the end"))
    } else if caller.isOver, refusal == nil {
      // One that gave its `place` up had not been told; its cancel may come after the answer.
      violate(.duplicateEnd, "the caller was told of an answer after it had left")
    }
  }

  private mutating func stopped(_ device: Int, _ end: DeviceRecord.End) {
    guard let before = record(of: device) else { return }
    if device == facts.caller { ringOverAt = ringOverAt ?? end.at }
    let name = name(of: device)
    if before.wonAt != nil, end.reason == .answeredElsewhere {
      violate(.winnerToldItLost, "\(name) won, and was told \(end.reason.name)")
    } else if let first = before.stop, !first.isRepeated(by: end, acrossSessions: before.wasAway) {
      oddities.append(
        Oddity(
          rule: .duplicateEnd, device: device, at: end.at,
          isOld: end.callEnd == first.callEnd && end.version < first.version,
          what: "\(name) was told \(first.reason.name), then \(end.reason.name)"))
    } else if before.stop == nil, let first = before.replied, first.reason != end.reason {
      violate(
        .duplicateEnd, "\(name) had the reply \(first.reason.name), then \(end.reason.name)")
    }
    change(device) { if $0.stop == nil { $0.stop = end } }
  }

  mutating func receive(
    _ device: Int, _ command: TraceLine.What, _ reply: ServerReply, at now: Timestamp
  ) {
    var line = TraceLine(at: now, device: Int32(device), what: .done)
    switch reply {
    case .done:
      note(line)
      agree(device, command, at: now)
    case .call(let state):
      line.what = .state
      describe(&line, state)
      note(line)
      agree(device, command, at: now)
      learn(device, command, state, at: now)
    case .answer(let won, let state):
      line.what = won ? .won : .lost
      describe(&line, state)
      note(line)
      if won { self.won(device, at: now) } else { lost(device, state, at: now) }
    case .error(let error):
      line.what = .error
      line.code = error.code.rawValue
      note(line)
      errors.append((device, command, error.code, now))
      if command == .place { refusal = error.code }
      if error.code == .unknownCall, accepted { forgottenBy = forgottenBy ?? device }
      // Nothing more comes of a call that was not taken or is forgotten; one not known yet may still come.
      if command == .place || error.code == .unknownCall && accepted {
        change(device) { $0.left = true }
      }
    case .attached, .registered, .calls: break
    }
  }

  private func describe(_ line: inout TraceLine, _ state: CallState) {
    line.version = state.version
    line.detail = state.reason?.rawValue ?? 0
    line.code = UInt16(state.phase.rawValue)
    line.by = Int32(state.by.flatMap { roster.device($0) } ?? -1)
  }

  private mutating func agree(_ device: Int, _ command: TraceLine.What, at now: Timestamp) {
    switch command {
    case .place:
      accepted = true
      acceptedAt = acceptedAt ?? now
    // A late cancel, decline or busy that an answer crossed has no effect, as the reply's state says.
    case .declineEverywhere, .declineHere, .busy, .hangUp, .cancel:
      if device == facts.caller, command == .cancel, answeredBy != nil { return }
      let stillHas = record(of: device)?.wonAt != nil && command != .hangUp
      if !stillHas { change(device) { $0.left = true } }
    default: break
    }
  }

  private mutating func learn(
    _ device: Int, _ command: TraceLine.What, _ state: CallState, at now: Timestamp
  ) {
    switch state.phase {
    case .ended:
      if device == facts.caller { ringOverAt = ringOverAt ?? now }
      guard let reason = state.reason else { return }
      let end = DeviceRecord.End(state, reason, at: now, roster)
      let name = name(of: device)
      if let first = record(of: device)?.end, first.reason != reason {
        violate(.duplicateEnd, "\(name) was told \(first.reason.name), then \(reason.name)")
      }
      if record(of: device)?.wonAt != nil, reason == .answeredElsewhere {
        violate(.winnerToldItLost, "\(name) won, and a reply said \(reason.name)")
      }
      change(device) { if $0.replied == nil { $0.replied = end } }
    case .answered:
      // It goes on, so this device has left nothing.
      change(device) { $0.left = false }
      if device == facts.caller { ringOverAt = ringOverAt ?? now }
    case .unknown: if accepted { forgottenBy = forgottenBy ?? device }
    case .placed, .ringing:
      guard let deadline = state.deadline else { return }
      let rest = now + (deadline - state.at)
      // `at` is when the call was placed, which a reply that comes late is long after.
      if command == .place { ringsOutAt = min(ringsOutAt ?? rest, rest) }
    }
  }

  private mutating func won(_ device: Int, at now: Timestamp) {
    guard let before = record(of: device) else { return }
    if before.stop?.reason == .answeredElsewhere || before.replied?.reason == .answeredElsewhere {
      violate(
        .winnerToldItLost, "\(name(of: device)) was told that it lost, then that it won")
    }
    change(device) { $0.wonAt = $0.wonAt ?? now }
  }

  private mutating func lost(_ device: Int, _ state: CallState, at now: Timestamp) {
    guard let before = record(of: device) else { return }
    if before.wonAt != nil {
      violate(
        .winnerToldItLost, "\(name(of: device)) was told that it won, then that it lost")
    }
    let end = DeviceRecord.End(state, state.reason ?? .answeredElsewhere, at: now, roster)
    change(device) { if $0.replied == nil { $0.replied = end } }
  }
}

extension DeviceRecord.End {
  init(_ state: CallState, _ reason: EndReason, at now: Timestamp, _ roster: Roster) {
    self.init(
      reason: reason, by: state.by.map { roster.device($0) ?? -1 }, missed: state.missed,
      version: state.version, at: now)
  }

  /// Whether `other` says the same again. A delivery repeats with its version. What is said to a new
  /// session may carry a new one, and so does what a shard's new owner says, whose epoch stands in
  /// the version's high bits: it cannot know who has heard of the end.
  func isRepeated(by other: Self, acrossSessions: Bool) -> Bool {
    callEnd == other.callEnd
      && (version == other.version || acrossSessions || other.version >> 20 > version >> 20)
  }
}

extension Party {
  var text: String { "\(user)/\(device)" }
}
