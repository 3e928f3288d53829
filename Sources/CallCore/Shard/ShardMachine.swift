/// One shard: its users' sessions and registrations, and the calls to them. Does no I/O, reads no
/// clock.
///
/// The shard of the callee owns the call, so every race of a call is decided here, in one order.
/// What the shard decides goes into an `Outcome`: facts for the journal, and effects, which the
/// driver carries out once the journal has the facts.
public struct ShardMachine: Sendable {
  public let shard: Int
  public let epoch: UInt64
  public let limits: CallLimits

  var calls = CallTable()
  var placedCalls = PlacedCalls()
  var users: [UserKey: User] = [:]
  var pendingStores: [UInt64: PendingStore] = [:]
  var pendingClaims: [UInt64: PendingClaim] = [:]
  var lastStoreToken: UInt64 = 0
  /// Calls that may have something to push.
  var pushWishes: [CallID] = []
  /// Whether sleeping devices are pushed, and tokens claimed: not before every node that may own the
  /// shard can read of it.
  public var mayPush = true
  /// Of the shard's journal.
  public var room = JournalRoom.enough
  /// When registrations are searched for expired ones.
  var expiryAt = Timestamp.distantFuture
  var tally = ShardCounts()
  /// False until every edge has announced its sessions: until then nobody is told anything.
  var isServing = false
  /// Edges whose sessions the shard does not know, and until when they may be there. 0 stands for
  /// devices between two edges.
  var missingEdges: [UInt64: Timestamp] = [:]
  var brokenSessions = BrokenSessions()
  private var deadlines = DeadlineQueue<CallID>()

  public init(shard: Int, epoch: UInt64, limits: CallLimits) {
    self.shard = shard
    self.epoch = epoch
    self.limits = limits
  }

  /// Devices that registered longer ago are not waited for after a loss: an app registers with each
  /// start, so whoever did not in a week is hardly between two sockets.
  static let presumedSeen: Span = .seconds(7 * 86_400)

  func context(_ now: Timestamp, isHeldBack: Bool = false) -> CallContext {
    CallContext(
      now: now, limits: limits, epoch: epoch, isServing: isServing, isHeldBack: isHeldBack)
  }

  // MARK: Recovery

  /// Takes in the registrations, once, at any time before `begin`: no replay looks at them.
  public mutating func restore(_ registrations: [Registration]) {
    for registration in registrations {
      users[registration.user, default: User()].withDevice(registration.device) {
        $0.registration = registration
        $0.name = registration.request.deviceName
      }
      tally.registrations += 1
    }
  }

  /// Replays a checkpoint, or one journal record; in order, before anything is decided.
  public mutating func replay(_ entries: [JournalEntry], now: Timestamp) {
    let epoch = epoch
    for entry in entries {
      if case .placed(let facts) = entry.change {
        guard !calls.contains(entry.call) else {
          if !facts.signalsTaken.isEmpty { mutate(entry.call) { $0.restore(facts.signalsTaken) } }
          continue
        }
        var call = Call(id: entry.call, facts: facts, callerSession: nil, epoch: epoch)
        // Whoever was invited before the takeover may ring: it is told what became of the call.
        for leg in call.legs.indices { call.legs[leg].told = true }
        insert(call)
      } else {
        mutate(entry.call) { call in
          call.apply(entry.change, at: now, epoch: epoch)
          if case .legJoined(let party) = entry.change, let leg = call.legIndex(party.device) {
            call.legs[leg].told = true
          }
        }
      }
    }
  }

  /// After all edges have announced their sessions: tells every device the present state of its
  /// calls and begins to keep time.
  ///
  /// Nobody tells a new owner whose session broke a moment ago. After a hand-over in good order the
  /// edges have said who is there, and whoever is not is away. After a crash, or while an edge is
  /// being lost, sessions and shards may have broken together: then registered devices without a
  /// session count as just broken, and calls to them wait for `reattachGrace`.
  /// - Parameter afterLoss: whether the former owner did not hand the shard over, or an edge was
  ///   lost, or silent, meanwhile.
  public mutating func begin(now: Timestamp, afterLoss: Bool = false, into outcome: inout Outcome) {
    isServing = true
    let context = context(now)
    if afterLoss, limits.reattachGrace.microseconds > 0 {
      edgeMissing(0, until: now + limits.reattachGrace, now: now)
      let since = now + Span(microseconds: -Self.presumedSeen.microseconds)
      for key in Array(users.keys) { users[key]?.presumeBroken(at: now, seenSince: since) }
    }
    let past = calls.slots.filter { calls[$0].isForgettable(context) }.map { calls[$0].id }
    for id in past { forget(id) }
    for id in calls.slots.map({ calls[$0].id }) {
      guard let slot = calls.slot(of: id), !calls[slot].settled else {
        rearm(id)
        continue
      }
      takeOver(id, context, into: &outcome)
    }
    expireRegistrations(now: now, into: &outcome)
    retransmitPushes(context, into: &outcome)
    carryOutPushes(context, into: &outcome)
    if !outcome.isEmpty { outcome.raise(to: .urgent) }
  }

  /// Also of calls that ended, and of whose end everybody knows.
  private func retransmitPushes(_ context: CallContext, into outcome: inout Outcome) {
    guard mayPush else { return }
    for slot in calls.slots {
      let devices = users[calls[slot].facts.callee]?.devices ?? []
      calls[slot].retransmitPushes(devices, context, into: &outcome)
    }
  }

  private mutating func takeOver(
    _ id: CallID, _ context: CallContext, into outcome: inout Outcome
  ) {
    let callee = calls.slot(of: id).map { calls[$0].facts.callee }
    let devices = callee.flatMap { users[$0] }?.devices ?? []
    let mayPush = mayPush
    let until = callee.flatMap { sessionsUnknownUntil(of: $0, context) }
    mutate(id) { call in
      if call.isRinging { call.sessionsUnknownUntil = until }
      call.takeOver(devices: devices, mayPush: mayPush, context, into: &outcome)
    }
  }

  // MARK: Commands

  public mutating func handle(_ command: Command, now: Timestamp, into outcome: inout Outcome) {
    let context = context(now)
    switch command.body {
    case .attach(let attach): self.attach(command, attach, context, into: &outcome)
    case .sessionClosed(let graceful):
      sessionClosed(command.user, command.session, graceful: graceful, context, into: &outcome)
    case .callerGone(let ids):
      for id in ids {
        mutate(id) { $0.callerSessionLost(command.session, context, into: &outcome) }
      }
    case .register(let request): register(command, request, context, into: &outcome)
    case .unregister(let device): unregister(command, device, into: &outcome)
    case .place(let request): place(command, request, context, into: &outcome)
    case .ack(let items):
      for item in items {
        mutate(item.call) { call in
          let role = call.role(of: command.user, command.device)
          call.acknowledge(role, item.version, context, into: &outcome)
        }
      }
    case .call(let id, let verb): handle(command, id, verb, context, into: &outcome)
    case .calls: liveCalls(command, into: &outcome)
    case .pushReport(let report): pushReported(command, report, context, into: &outcome)
    case .tokenTaken(let taken): tokenTaken(command, taken, context, into: &outcome)
    }
    if !pushWishes.isEmpty { carryOutPushes(context, into: &outcome) }
  }

  // MARK: Edges

  /// The shard does not know which sessions an edge has: it fell silent, or came back and has not
  /// announced them yet. Until then no call ends as unreachable at once.
  public mutating func edgeMissing(_ edge: UInt64, until: Timestamp, now: Timestamp) {
    missingEdges = missingEdges.filter { now < $0.value }
    if now < until { missingEdges[edge] = max(until, missingEdges[edge] ?? until) }
  }

  /// An edge has announced all its sessions. Devices whose sockets it closed while it was missing are on
  /// their way to an edge: for `reattachGrace` more nobody is unreachable at once.
  public mutating func edgeAnnounced(_ edge: UInt64, now: Timestamp) {
    guard let until = missingEdges[edge] else { return }
    missingEdges[edge] = min(until, now + limits.reattachGrace)
  }

  /// How many sessions of an edge are known.
  public func sessions(on edge: UInt64) -> Int {
    users.values.reduce(0) { $0 + $1.devices.count { $0.session?.edge == edge } }
  }

  private func isEdgeMissing(_ context: CallContext) -> Bool {
    missingEdges.contains { context.now < $0.value }
  }

  /// Until when a call to somebody without a device waits for one; nil where all sessions are known.
  func sessionsUnknownUntil(of callee: UserKey, _ context: CallContext) -> Timestamp? {
    if isEdgeMissing(context) { return context.now + limits.reattachGrace }
    return brokenSessions.awaited(callee, now: context.now, grace: limits.reattachGrace)
  }

  /// Takes note of a session that broke, where the device that had it may still have had the one before.
  mutating func noteBroken(_ device: User.Device?, of key: UserKey, _ context: CallContext) {
    guard let device, device.registration == nil, let replacedAt = device.replacedAt,
      context.now < replacedAt + limits.reattachGrace
    else { return }
    brokenSessions.note(key, at: context.now, grace: limits.reattachGrace)
  }

  /// An edge is gone, and its sessions with it.
  public mutating func edgeLost(_ edge: UInt64, now: Timestamp, into outcome: inout Outcome) {
    let context = context(now)
    for key in Array(users.keys) {
      let dropped = users[key]?.dropSessions(at: now, graceful: false) { $0.edge == edge } ?? []
      for session in dropped {
        tally.sessions -= 1
        calleeSessionLost(key, session, graceful: false, context, into: &outcome)
      }
      if !dropped.isEmpty { tidy(key) }
    }
    for slot in calls.slots {
      guard let session = calls[slot].caller.session, session.edge == edge else { continue }
      mutate(calls[slot].id) { $0.callerSessionLost(session, context, into: &outcome) }
    }
    carryOutPushes(context, into: &outcome)
  }

  // MARK: Time

  /// When `fire` is due next.
  public var nextDeadline: Timestamp {
    isServing ? min(deadlines.next, expiryAt) : .distantFuture
  }

  /// Carries out what is due.
  /// - Parameter isHeldBack: the journal has not taken for a while what was decided. Nothing is
  ///   retransmitted then that nobody was sent.
  public mutating func fire(
    now: Timestamp, isHeldBack: Bool = false, into outcome: inout Outcome
  ) {
    guard isServing else { return }
    let context = context(now, isHeldBack: isHeldBack)
    while let due = deadlines.popDue(now: now) {
      guard let slot = calls.slot(of: due.key), calls[slot].armedAt == due.at else { continue }
      if calls[slot].isForgettable(context) {
        forget(due.key)
        continue
      }
      var repeated = 0
      mutate(due.key) { call in
        call.armedAt = .distantFuture
        repeated = call.tick(context, into: &outcome)
      }
      tally.deliveryRepeatsTotal += UInt64(repeated)
      if !pushWishes.isEmpty { carryOutPushes(context, into: &outcome) }
    }
    if expiryAt <= now { expireRegistrations(now: now, into: &outcome) }
  }

  /// The journal has taken what it held back for a while: time that nobody had does not count.
  public mutating func wasHeldBack(now: Timestamp) {
    let context = context(now)
    for slot in calls.slots { calls[slot].allowTime(context) }
  }

  // MARK: Keeping calls

  mutating func insert(_ call: Call) {
    calls.insert(call)
    if !call.isEnded { placedCalls.add(call) }
    users[call.facts.callee, default: User()].calls.append(call.id)
    tally.add(call.phase, 1)
    rearm(call.id)
  }

  /// Changes a call in place, keeps the gauges and the armed deadline right. Nothing for an unknown
  /// call.
  mutating func mutate(_ id: CallID, _ body: (inout Call) -> Void) {
    guard let slot = calls.slot(of: id) else { return }
    let before = calls[slot].phase
    let wasSettled = calls[slot].settled
    body(&calls[slot])
    let after = calls[slot].phase
    if calls[slot].wantsPush { pushWishes.append(id) }
    if calls[slot].settled, !wasSettled { shelve(id, calls[slot].facts.callee) }
    if before != after {
      tally.add(before, -1)
      tally.add(after, 1)
      if after == .answered { tally.callsAnsweredTotal += 1 }
      if after == .ended {
        tally.callsEndedTotal += 1
        placedCalls.remove(calls[slot])
      }
    }
    arm(slot)
  }

  private mutating func rearm(_ id: CallID) {
    guard let slot = calls.slot(of: id) else { return }
    calls[slot].armedAt = .distantFuture
    arm(slot)
  }

  /// Arms an earlier deadline at once; a later one only when the armed one fires.
  private mutating func arm(_ slot: Int) {
    let next = calls[slot].nextDeadline(limits)
    guard next < calls[slot].armedAt else { return }
    calls[slot].armedAt = next
    deadlines.insert(calls[slot].id, at: next)
  }

  private mutating func shelve(_ id: CallID, _ callee: UserKey) {
    users[callee]?.calls.removeAll { $0 == id }
    users[callee]?.past.append(id)
  }

  mutating func forget(_ id: CallID) {
    guard let call = calls.remove(id) else { return }
    if !call.isEnded { placedCalls.remove(call) }
    tally.add(call.phase, -1)
    if call.settled {
      users[call.facts.callee]?.past.remove(id)
    } else {
      users[call.facts.callee]?.calls.removeAll { $0 == id }
    }
    tidy(call.facts.callee)
  }

  mutating func tidy(_ key: UserKey) {
    users[key]?.prune()
    if users[key]?.isEmpty == true { users[key] = nil }
  }

  // MARK: For the driver

  /// All calls as they are now, for a checkpoint.
  public var snapshot: ShardSnapshot { ShardSnapshot(calls: calls) }

  /// The fewest entries that rebuild every call.
  public func checkpointEntries() -> [JournalEntry] { snapshot.entries() }

  public var counts: ShardCounts { tally }
}

/// How much more a shard's journal takes. What is refused in time leaves room for what calls that were accepted
/// still need: their answers and ends.
public enum JournalRoom: Sendable {
  case enough
  /// No further calls (`overloaded`).
  case short
  /// Nor descriptions and candidates.
  case scarce
}
