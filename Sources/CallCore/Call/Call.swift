/// One call, from its placing until it is forgotten. Does no I/O and reads no clock.
///
/// Every change of what must survive a crash goes through `apply`, whether it is decided now or read
/// back from the journal; `Call+Decisions.swift` decides, `Call+Deliveries.swift` tells the devices.
struct Call: Sendable {
  enum Stage: Sendable {
    /// Becomes answered or ended.
    case ringing
    /// Becomes ended.
    case answered(AnsweredFacts)
    /// Final. `answer` tells who had won.
    case ended(EndedFacts, answer: AnsweredFacts?)
  }

  let id: CallID
  var facts: PlacedFacts
  var stage: Stage = .ringing
  var legs: [Leg] = []
  var caller: Endpoint
  /// What the caller sent before anybody answered, in order, for legs that join late.
  var callerSignals: [Signal] = []
  var callerSignalCount: UInt64 = 0
  var callerSignalMemory = SignalMemory()
  var callerConnected = false
  var winnerConnected = false
  /// Until when a side whose session broke may come back.
  var callerLostUntil: Timestamp?
  var winnerLostUntil: Timestamp?
  /// No leg has a session: until when one may come back. Not journalled: a new owner counts anew.
  var legsLostUntil: Timestamp?
  /// Until when a device may be announced of which the shard does not know, since an edge is missing.
  /// Not journalled: a new owner counts anew.
  var sessionsUnknownUntil: Timestamp?
  /// Until when both sides may report connected, where they were told of the answer late. Not journalled: a
  /// new owner counts anew.
  var connectBy: Timestamp?
  /// Of the newest delivery.
  var version: UInt64
  /// Every device acknowledged the end.
  var settled = false
  /// A push may be due: the shard is to call `push`.
  var wantsPush = false
  /// Gateways were told that it rings no more.
  var isWithdrawn = false
  /// Devices without a leg that had a notice of the missed call.
  var noticed: [DeviceID] = []
  /// When an edge received the place, where this owner was told.
  var receivedAt: Timestamp?
  /// All devices were known to ring once.
  var rangEverywhere = false
  /// The deadline that stands in the shard's queue.
  var armedAt: Timestamp = .distantFuture
  var timeline: CallTimeline

  init(id: CallID, facts: PlacedFacts, callerSession: SessionRef?, epoch: UInt64) {
    self.id = id
    self.facts = facts
    self.caller = Endpoint(session: callerSession)
    self.version = epoch << 20
    self.timeline = CallTimeline(start: facts.placedAt)
    self.legs = facts.legs.map { Leg(party: $0, session: nil) }
    timeline.note(.placed, CallTimeline.caller, at: facts.placedAt)
  }

  /// What a checkpoint tells of descriptions and candidates that were taken.
  mutating func restore(_ marks: [SignalMark]) {
    callerSignalMemory = SignalMemory()
    for leg in legs.indices { legs[leg].signalMemory = SignalMemory() }
    for mark in marks {
      if mark.fromCaller {
        callerSignalMemory.note(request: mark.request, content: mark.content)
      } else if let leg = legIndex(mark.device) {
        legs[leg].signalMemory.note(request: mark.request, content: mark.content)
      }
    }
  }

  func legIndex(_ device: DeviceID) -> Int? {
    legs.firstIndex { $0.party.device == device }
  }

  var winner: Int? {
    legs.firstIndex { $0.state == .won }
  }

  var isEnded: Bool {
    if case .ended = stage { true } else { false }
  }

  var isRinging: Bool {
    if case .ringing = stage { true } else { false }
  }

  var phase: CallPhase {
    switch stage {
    case .ringing: legs.contains { $0.state == .alerting } ? .ringing : .placed
    case .answered: .answered
    case .ended: .ended
    }
  }

  // MARK: Facts

  /// Takes in one fact. Applied twice, it changes nothing more; a fact that no longer fits is left
  /// alone, since the journal's order is the truth.
  mutating func apply(_ change: JournalEntry.Change, at now: Timestamp, epoch: UInt64) {
    switch change {
    case .placed: break
    case .legJoined(let party):
      guard let leg = legIndex(party.device) else {
        legs.append(Leg(party: party, session: nil))
        return timeline.note(.joined, UInt8(clamping: legs.count - 1), at: now)
      }
      // It had left, and is back.
      if isRinging, legs[leg].state == .gone {
        legs[leg].state = .waking
        legs[leg].leftAt = nil
      }
    case .alerting(let device): applyAlerting(device, at: now)
    case .answered(let answer): applyAnswered(answer)
    case .legEnded(let device, let end, let at):
      applyLegEnded(device, end, at: at, heard: now)
    case .connected(let fromCaller):
      if fromCaller { callerConnected = true } else { winnerConnected = true }
      timeline.note(.connected, fromCaller ? CallTimeline.caller : winnerNumber, at: now)
    case .ended(let end): applyEnded(end)
    case .signal(let fromCaller, let device, let signal):
      applySignal(fromCaller: fromCaller, device, signal, at: now, epoch: epoch)
    case .callerLost(let until): callerLostUntil = until
    case .winnerLost(let until): winnerLostUntil = until
    case .settled: settled = true
    case .pushed(let device, let purpose): applyPushed(device, purpose, at: now)
    }
  }

  private var winnerNumber: UInt8 { winner.map { UInt8(clamping: $0) } ?? CallTimeline.call }

  private mutating func applyAlerting(_ device: DeviceID, at now: Timestamp) {
    guard let leg = legIndex(device), legs[leg].state.isLive else { return }
    legs[leg].state = .alerting
    timeline.note(.alerting, UInt8(clamping: leg), at: now)
  }

  private mutating func applyAnswered(_ answer: AnsweredFacts) {
    guard case .ringing = stage else { return }
    if legIndex(answer.by.device) == nil { legs.append(Leg(party: answer.by, session: nil)) }
    for index in legs.indices {
      if legs[index].party.device == answer.by.device {
        legs[index].state = .won
        timeline.note(.answered, UInt8(clamping: index), at: answer.at)
      } else {
        if legs[index].state.isLive { legs[index].state = .stopped }
        legs[index].signals = []
      }
    }
    stage = .answered(answer)
  }

  /// - Parameter at: nil from records of versions that did not say.
  private mutating func applyLegEnded(
    _ device: DeviceID, _ end: LegEnd, at: Timestamp?, heard: Timestamp
  ) {
    guard let leg = legIndex(device), legs[leg].state.isLive else { return }
    let now = at ?? heard
    switch end {
    case .declinedHere:
      legs[leg].state = .declined
      timeline.note(.declinedHere, UInt8(clamping: leg), at: now)
    case .busy:
      legs[leg].state = .busy
      timeline.note(.busy, UInt8(clamping: leg), at: now)
    case .gone:
      legs[leg].state = .gone
      timeline.note(.left, UInt8(clamping: leg), at: now)
    }
    legs[leg].leftAt = at ?? facts.placedAt
    legs[leg].endpoint.clear()
    legs[leg].signals = []
    legs[leg].isBeingWoken = false
    legs[leg].pushAt = .distantFuture
  }

  private mutating func applyEnded(_ end: EndedFacts) {
    let answer: AnsweredFacts?
    switch stage {
    case .ringing: answer = nil
    case .answered(let facts): answer = facts
    case .ended: return
    }
    for index in legs.indices where legs[index].state.isLive {
      let declined = end.reason == .declined && legs[index].party.device == end.by?.device
      legs[index].state = declined ? .declined : .stopped
    }
    stage = .ended(end, answer: answer)
    noteEnd(end)
    releaseMemory()
  }

  private mutating func noteEnd(_ end: EndedFacts) {
    let by = end.by.flatMap { party -> UInt8? in
      if party.user.hasBytes(of: facts.caller.user), party.device == facts.caller.device {
        return CallTimeline.caller
      }
      return legIndex(party.device).map { UInt8(clamping: $0) }
    }
    let what: CallTimeline.What =
      switch end.reason {
      case .declined: .declined
      case .cancelled: .cancelled
      case .hungUp: .hungUp
      case .answeredElsewhere, .unanswered, .busy, .unreachable, .failed, .glare: .ended
      }
    timeline.note(what, by ?? CallTimeline.call, at: end.at)
  }

  /// What an ended call is kept for needs no descriptions and candidates.
  private mutating func releaseMemory() {
    callerSignals = []
    facts.description = ""
    facts.headers = []
    callerSignalMemory = SignalMemory()
    caller.clear()
    for index in legs.indices {
      // What waits for others says that they lost, which stays true.
      if legs[index].state == .won { legs[index].endpoint.clear() }
      legs[index].signals = []
      legs[index].signalMemory = SignalMemory()
    }
    if case .ended(let end, answer: .some(var answer)) = stage {
      answer.description = ""
      stage = .ended(end, answer: answer)
    }
  }

  private mutating func applySignal(
    fromCaller: Bool, _ device: DeviceID, _ signal: Signal, at now: Timestamp, epoch: UInt64
  ) {
    if fromCaller {
      guard signal.index > callerSignalCount, !isEnded else { return }
      callerSignalCount = signal.index
      callerSignalMemory.note(signal)
      if isRinging {
        callerSignals.append(signal)
      } else if let winner {
        legs[winner].endpoint.keep(delivery(.signal(signal), at: now, epoch: epoch))
      }
      return
    }
    guard let leg = legIndex(device), signal.index > legs[leg].signalCount, !isEnded else { return }
    legs[leg].signalCount = signal.index
    legs[leg].signalMemory.note(signal)
    if isRinging, legs[leg].state.isLive {
      legs[leg].signals.append(signal)
    } else if legs[leg].state == .won {
      caller.keep(delivery(.signal(signal), at: now, epoch: epoch))
    }
  }

  /// A delivery with the next version.
  mutating func delivery(_ event: Delivery.Event, at now: Timestamp, epoch: UInt64) -> Delivery {
    version = max(version, epoch << 20) + 1
    return Delivery(
      call: id, callee: facts.callee.user, version: version, at: now, event: event)
  }
}
