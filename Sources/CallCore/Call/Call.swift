/// One call, from its placing until it is forgotten. Does no I/O and reads no clock.
///
/// Every change of what must survive a crash goes through `apply`, whether it is decided now or read back from the
/// journal. The other files hold one part of a call's life each. Only this one changes `stage`.
struct Call: Sendable {
  let id: CallID
  var facts: PlacedFacts
  /// `becomeAnswered` and `becomeEnded` are its transitions.
  private(set) var stage = CallStage.ringing(CallStage.Ringing())
  /// The callee's devices in this call. Legs are added and never removed, so an index stays valid.
  var legs: [Leg]
  var caller: Endpoint
  /// The caller's descriptions and candidates. `waiting` holds all of them until a device answers, for legs
  /// that join late.
  var callerSignals = SentSignals()
  /// How the call went on to other users (at most `CallLimits.diversionsPerCall` times) and left users, in order.
  var diversions: [DivertedFacts] = []
  /// The users to whom it went on.
  var guests: [Guest] = []
  /// How many questions this owner has sent to the guests' shards.
  var visitsAsked: UInt64 = 0
  /// The callee's rules for this call while it rings. Not journalled; a new owner reads them again.
  var forwarding = Forwarding()
  /// Whether a user in a call is busy for this one; nil: the cluster's setting holds. Not journalled.
  var busyWhileInCall: Bool?
  /// How sides moved to other devices, in their order (at most `CallLimits.movesPerCall`).
  var moves: [MovedFacts] = []
  /// How sides were handed over to other users, or were to be (at most `CallLimits.movesPerCall`).
  var transfers: [Transfer] = []
  /// Devices that had the caller's side. Devices that had the callee's side are legs.
  var formerCallers: [FormerCaller] = []
  /// The version of the newest delivery.
  var version: UInt64
  /// A push may be due: the shard is to call `push`.
  var wantsPush = false
  /// The callee's other devices are to ring now: the shard is to call `ring`.
  var wantsOthers = false
  /// Gateways were notified that ring pushes of this call are no longer to be sent.
  var isPushWithdrawn = false
  /// The winner's device is attached again and has not confirmed that it has the call. Not journalled; a new owner asks
  /// it again.
  var awaitsWinner = false
  /// Devices without a leg that got a notice of the missed call.
  var noticedDevices: [DeviceID] = []
  /// When an edge received the place; nil where this owner does not know.
  var receivedAt: Timestamp?
  /// Kept where the app has webhooks.
  var firstAlerting: FirstAlerting?
  /// The deadline that stands in the shard's queue.
  var armedAt: Timestamp = .distantFuture
  var timeline: CallTimeline

  init(id: CallID, facts: PlacedFacts, caller: Endpoint = Endpoint(), epoch: UInt64) {
    self.id = id
    self.facts = facts
    self.caller = caller
    version = epoch << 20
    timeline = CallTimeline(start: facts.placedAt)
    legs = facts.legs.map { Leg(party: $0, key: facts.key(of: $0)) }
    firstAlerting = facts.firstAlerting
    timeline.note(.placed, CallTimeline.caller, at: facts.placedAt)
  }

  func legIndex(_ key: DeviceID) -> Int? {
    legs.firstIndex { $0.key == key }
  }

  func legIndex(_ party: Party) -> Int? { legIndex(facts.key(of: party)) }

  var callerKey: UserKey { UserKey(app: facts.callee.app, user: facts.caller.user) }

  var phase: CallPhase {
    switch stage {
    case .ringing: legs.contains { $0.state == .alerting } ? .ringing : .placed
    case .answered: .answered
    case .ended: .ended
    }
  }

  // MARK: Roles

  /// The role of a command's sender in this call.
  enum Role {
    case caller
    case leg(Int)
    /// A device that had the caller's side.
    case formerCaller(Int)
    /// A device of the callee, or of a user to whom the call went on, without a leg: it may join.
    case calleeDevice(user: String, DeviceID)
    case stranger
  }

  func role(of user: UserKey, _ device: DeviceID) -> Role {
    guard user.app.hasBytes(of: facts.callee.app) else { return .stranger }
    // In a call to oneself the device that placed it is the caller, not a leg.
    if device == facts.caller.device, user.user.hasBytes(of: facts.caller.user) { return .caller }
    if !formerCallers.isEmpty, let former = formerCaller(user.user, device) {
      return .formerCaller(former)
    }
    guard user.user.hasBytes(of: facts.callee.user) || guest(user.user) != nil else {
      return .stranger
    }
    let key = facts.key(user.user, device)
    if let leg = legIndex(key) { return .leg(leg) }
    return .calleeDevice(user: user.user, key)
  }

  // MARK: Decisions

  /// Records a fact for the journal and applies it.
  ///
  /// A fact that the call's own state does not admit must never be decided; if one is, it is reported as a fault.
  mutating func commit(
    _ change: JournalEntry.Change, _ urgency: Outcome.Urgency, _ turn: inout Turn
  ) {
    turn.outcome.entries.append(JournalEntry(call: id, change: change))
    turn.outcome.raise(to: urgency)
    if turn.storedParts.contains(.events), hasWebhooks {
      let events = events(of: change)
      if !events.isEmpty { turn.outcome.effects.append(.events(id, events)) }
    }
    if !apply(change, at: turn.now, epoch: turn.epoch) {
      turn.outcome.faults.append(MachineFault(.decisionRefused, call: id))
    }
  }

  /// A delivery with the next version.
  mutating func delivery(_ event: Delivery.Event, at now: Timestamp, epoch: UInt64) -> Delivery {
    version = max(version, epoch << 20) + 1
    return Delivery(call: id, callee: facts.callee.user, version: version, at: now, event: event)
  }

  /// Applies one fact. Applying it again changes nothing more. A fact that does not fit is ignored: the
  /// order of the journal decides.
  /// - Returns: whether the fact fits. A replay ignores that; a decision that does not fit is a bug.
  @discardableResult
  mutating func apply(_ change: JournalEntry.Change, at now: Timestamp, epoch: UInt64) -> Bool {
    switch change {
    // The shard creates the call from it.
    case .placed: return false
    case .legJoined(let party): return applyJoined(party, at: now)
    case .alerting(let device): return applyAlerting(device, at: now)
    case .answered(let answer): return applyAnswered(answer)
    case .moved(let move): return applyMoved(move, at: now, epoch: epoch)
    case .transferEnded(let end): return applyTransferEnded(end, at: now, epoch: epoch)
    case .diverted(let diverted): return applyDiverted(diverted)
    case .legEnded(let device, let end, let at):
      return applyLegEnded(device, end, at: at, readAt: now)
    case .connected(let fromCaller): return applyConnected(fromCaller: fromCaller, at: now)
    case .ended(let end): return applyEnded(end)
    case .signal(let fromCaller, let device, let signal):
      return applySignal(fromCaller: fromCaller, device, signal, at: now, epoch: epoch)
    case .callerLost(let until):
      callerLostUntil = until
      return !isEnded
    case .winnerLost(let until): return changeConversation { $0.winnerLostUntil = until }
    case .settled: return changeEnding { $0.isSettled = true }
    case .recorded: return changeEnding { $0.isRecorded = true }
    case .pushed(let device, let purpose):
      applyPushed(device, purpose, at: now)
      return true
    }
  }

  // MARK: Stages

  // | from              | to       | fact       | decided by                                 |
  // |-------------------|----------|------------|--------------------------------------------|
  // | (placed)          | ringing  | `placed`   | the shard                                  |
  // | ringing           | answered | `answered` | `win`: an answer, or a call that merges    |
  // | ringing, answered | ended    | `ended`    | `end`: a command, a timeout, nothing rings |
  //
  // A call that is diverted stays ringing. A call whose side moves or is transferred stays answered.

  /// - Returns: false where the call does not ring.
  mutating func becomeAnswered(_ answer: AnsweredFacts, winner: Int) -> Bool {
    guard case .ringing(let ringing) = stage else { return false }
    stage = .answered(
      CallStage.Conversation(answer, winner: winner, callerLostUntil: ringing.callerLostUntil))
    return true
  }

  /// - Returns: false where the call has ended before.
  mutating func becomeEnded(_ end: EndedFacts) -> Bool {
    guard !isEnded else { return false }
    var answer = answer
    answer?.description = ""
    stage = .ended(CallStage.Ending(facts: end, answer: answer))
    return true
  }

  /// Changes what exists only while the call rings.
  /// - Returns: false where it does not ring.
  @discardableResult
  mutating func changeRinging(_ body: (inout CallStage.Ringing) -> Void) -> Bool {
    guard case .ringing(var ringing) = stage else { return false }
    body(&ringing)
    stage = .ringing(ringing)
    return true
  }

  /// Changes what exists only while the call is answered.
  /// - Returns: false where it is not.
  @discardableResult
  mutating func changeConversation(_ body: (inout CallStage.Conversation) -> Void) -> Bool {
    guard case .answered(var conversation) = stage else { return false }
    body(&conversation)
    stage = .answered(conversation)
    return true
  }

  /// Changes what exists only after the end.
  /// - Returns: false where the call goes on.
  @discardableResult
  mutating func changeEnding(_ body: (inout CallStage.Ending) -> Void) -> Bool {
    guard case .ended(var ending) = stage else { return false }
    body(&ending)
    stage = .ended(ending)
    return true
  }
}
