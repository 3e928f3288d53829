package import CallCore
package import CallJudge

/// Judges the pushes of a call at the provider, once all of them have arrived.
package struct PushJudge: Sendable {
  package struct Arrival: Sendable, Equatable {
    package var device: Int
    package var purpose: PushPurpose
    /// `apns-id`: the same for every attempt of one push.
    package var id: String
    package var at: Timestamp
    /// When it was decided, by the cluster's clock.
    package var sentAt: Timestamp?
    package init(device: Int, purpose: PushPurpose, id: String, at: Timestamp, sentAt: Timestamp?) {
      self.device = device
      self.purpose = purpose
      self.id = id
      self.at = at
      self.sentAt = sentAt
    }
  }

  private struct Call {
    var plannedAt: Timestamp
    var arrivals: [Arrival] = []
    /// When ringing was over: by the decision, on the cluster's clock, and by the first news of it here.
    var overDecidedAt: Timestamp?
    var overLearnedAt: Timestamp?
    var answered = false
    var winner: Int?
    var attachedAt: [Int: Timestamp] = [:]
    var acted: Set<Int> = []
    /// Sleeping devices that got an invite, and when that was decided.
    var invitedAt: [Int: Timestamp] = [:]
  }

  /// A gateway may finish a push that was on its way at the end within this time.
  package static let slack: Span = .seconds(1)
  /// The greatest delay from a decision to its arrival here, for comparisons between the two clocks.
  package static let skew: Span = .milliseconds(250)

  private var calls: [CallID: Call] = [:]
  private let takes: @Sendable (Int) -> PushCapabilities?

  package init(takes: @escaping @Sendable (Int) -> PushCapabilities?) { self.takes = takes }

  package mutating func planned(_ call: CallID, at now: Timestamp) {
    calls[call] = Call(plannedAt: now)
  }

  package mutating func arrived(_ arrival: Arrival, for call: CallID) {
    calls[call]?.arrivals.append(arrival)
  }

  /// The call no longer rings: it was answered, or ended.
  /// - Parameter decidedAt: by the cluster's clock; nil: by a reply, which has no such time.
  package mutating func over(_ id: CallID, decidedAt: Timestamp?, learnedAt: Timestamp) {
    guard var call = calls[id] else { return }
    call.overDecidedAt = [call.overDecidedAt, decidedAt].compactMap(\.self).min()
    call.overLearnedAt = call.overLearnedAt ?? learnedAt
    calls[id] = call
  }

  package mutating func answered(_ call: CallID) { calls[call]?.answered = true }
  package mutating func won(_ call: CallID, _ device: Int) {
    calls[call]?.answered = true
    calls[call]?.winner = device
  }

  package mutating func attached(_ call: CallID, _ device: Int, at now: Timestamp) {
    if calls[call]?.attachedAt[device] == nil { calls[call]?.attachedAt[device] = now }
  }

  /// A device that had slept got an invite.
  /// - Parameter decidedAt: by the cluster's clock.
  package mutating func invited(_ call: CallID, _ device: Int, decidedAt: Timestamp) {
    calls[call]?.invitedAt.merge([device: decidedAt], uniquingKeysWith: max)
  }

  /// The device declined, or was busy, without a session, and the cluster accepted that.
  package mutating func acted(_ call: CallID, _ device: Int) { calls[call]?.acted.insert(device) }

  // MARK: Judging

  package struct Finding: Sendable, Equatable {
    package var violations: [Violation<CorrectnessRule>] = []
    package var late: [PushPurpose: Int] = [:]
    package init() {}
  }

  package struct Faults {
    /// Whether the cluster may have lacked a device's session between two times.
    package var disturbed: (_ device: Int, Timestamp, Timestamp) -> Bool = { _, _, _ in false }
    /// Whether a gateway died between two times, perhaps while it sent a ring, or nats-server, perhaps with a
    /// gateway's report that it sent none. The cluster cannot know then whether a ring was sent, so the device
    /// gets the clean-up all the same. A ring that was decided before the end may be sent after it.
    package var ringUncertain: (Timestamp, Timestamp) -> Bool = { _, _ in false }
    package init() {}
  }

  package mutating func judge(
    _ id: CallID, faults: Faults = Faults(), name: (Int) -> String
  ) -> Finding {
    guard let call = calls.removeValue(forKey: id) else { return Finding() }
    var finding = Finding()
    var seen: [Int: [PushPurpose: String]] = [:]
    for arrival in call.arrivals {
      let what = "\(name(arrival.device)) was pushed \(arrival.purpose.name)"
      if let first = seen[arrival.device]?[arrival.purpose] {
        // A gateway that got no answer sends the same push again.
        if first != arrival.id { finding.add(.pushedTwice, "\(what) twice") }
        continue
      }
      seen[arrival.device, default: [:]][arrival.purpose] = arrival.id
      if let over = call.overLearnedAt {
        let isLate = arrival.purpose == .ring ? over < arrival.at : over + Self.slack < arrival.at
        if isLate { finding.late[arrival.purpose, default: 0] += 1 }
      }
      if arrival.purpose == .ring {
        judgeRing(arrival, call, what, faults, &finding)
      } else {
        judgeCleanUp(arrival, call, what, faults, &finding)
      }
    }
    let over = call.overDecidedAt ?? call.overLearnedAt.map { $0 + Self.skew }
    for (device, invited) in call.invitedAt.sorted(by: { $0.key < $1.key }) {
      guard let over, over < invited else { continue }
      finding.add(.wokenRangAfterEnd, "\(name(device)) was told to ring after the end")
    }
    return finding
  }

  private func judgeRing(
    _ arrival: Arrival, _ call: Call, _ what: String, _ faults: Faults, _ finding: inout Finding
  ) {
    if let over = call.overDecidedAt, let sentAt = arrival.sentAt, over < sentAt {
      return finding.add(.pushedAfterEnd, "\(what), decided after the end")
    }
    // The job waited for the server, or was handed out again when a gateway had died with it.
    if let over = call.overLearnedAt, over + Self.slack < arrival.at,
      !faults.ringUncertain(call.plannedAt, arrival.at)
    {
      let milliseconds = (arrival.at - over).microseconds / 1000
      finding.add(.pushedAfterEnd, "\(what) \(milliseconds) ms after the caller knew of the end")
    }
  }

  private func judgeCleanUp(
    _ arrival: Arrival, _ call: Call, _ what: String, _ faults: Faults, _ finding: inout Finding
  ) {
    var evidence = PushEvidence()
    evidence.isAnswered = call.answered
    evidence.isWinner = arrival.device == call.winner
    evidence.takes = takes(arrival.device) ?? []
    evidence.endedItsPart = call.acted.contains(arrival.device)
    // A ring and its clean-up may overtake each other between two connections.
    evidence.wasRung =
      call.arrivals.contains { $0.device == arrival.device && $0.purpose == .ring }
      || faults.ringUncertain(call.plannedAt, arrival.at)
    switch evidence.objection(to: arrival.purpose) {
    case .toWinner(let why): return finding.add(.cleanUpToWinner, "\(what), \(why)")
    case .rangTooLate(let why), .notTaken(let why), .unwanted(let why):
      return finding.add(.cleanUpUnasked, "\(what), \(why)")
    case nil: break
    }
    guard arrival.purpose.isCleanUp, let attached = call.attachedAt[arrival.device],
      let sentAt = arrival.sentAt, attached + Self.skew < sentAt,
      !faults.disturbed(arrival.device, attached, arrival.at)
    else { return }
    finding.add(.cleanUpUnasked, "\(what), which was attached")
  }
}

extension PushJudge.Finding {
  fileprivate mutating func add(_ rule: CorrectnessRule, _ what: String) {
    violations.append(Violation(rule, what))
  }
}
