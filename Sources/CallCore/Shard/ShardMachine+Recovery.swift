/// How a new owner takes a shard over: it restores the registrations, replays the journal, takes the sessions
/// that edges announce, and begins; and what it leaves for the next owner.
extension ShardMachine {
  /// Devices that registered longer ago are not waited for after a loss: an app registers with each
  /// start, so one that did not in a week is hardly between two sockets.
  private static let presumedSeen: Span = .seconds(7 * 86_400)

  /// Takes in the registrations, once, at any time before `begin`: a replay does not need them.
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
        var call = Call(id: entry.call, facts: facts, epoch: epoch)
        // Each leg may ring since the former owner invited it, so it gets what becomes of the call.
        for leg in call.legs.indices { call.legs[leg].invitation = .sent }
        insert(call)
      } else {
        if case .moved = entry.change { forgetPlacer(of: entry.call) }
        mutate(entry.call) { call in
          call.apply(entry.change, at: now, epoch: epoch)
          if case .legJoined(let party) = entry.change, let leg = call.legIndex(party) {
            call.legs[leg].invitation = .sent
          }
        }
        if case .moved = entry.change { notePlacer(of: entry.call) }
      }
    }
  }

  /// Begins to serve, after all edges have announced their sessions: sends every device the present state of
  /// its calls and begins to keep time.
  ///
  /// A new owner does not learn whose session broke a moment ago. After a planned hand-over the
  /// edges have said who is there, and everybody else is away. After a crash, or while an edge is
  /// being lost, sessions and shards may have broken together: then registered devices without a
  /// session count as just broken, and calls to them wait for `reattachGrace`.
  /// - Parameter afterLoss: whether the former owner did not hand the shard over, or an edge was
  ///   lost, or silent, meanwhile.
  public mutating func begin(now: Timestamp, afterLoss: Bool = false, into outcome: inout Outcome) {
    isServing = true
    var turn = turn(at: now, taking: &outcome)
    defer { swap(&turn.outcome, &outcome) }
    if afterLoss, limits.reattachGrace.microseconds > 0 {
      edgeMissing(0, until: now + limits.reattachGrace, now: now)
      let since = now + Span(microseconds: -Self.presumedSeen.microseconds)
      for key in Array(users.keys) { users[key]?.presumeBroken(at: now, seenSince: since) }
    }
    requestEvents(&turn)
    let past = calls.slots.filter { calls[$0].isForgettable(turn) }.map { calls[$0].id }
    for id in past { forgetRecorded(id) }
    for id in calls.slots.map({ calls[$0].id }) {
      guard let slot = calls.slot(of: id), !calls[slot].isSettled else {
        rearm(id)
        continue
      }
      takeOver(id, &turn)
    }
    expireRegistrations(now: now, &turn)
    retransmitPushes(&turn)
    requestMerges(&turn)
    requestReplacing(&turn)
    requestStoring(&turn)
    carryOutPushes(&turn)
    beginOngoing(&turn)
    beginHistories(&turn)
    if !turn.outcome.isEmpty { turn.outcome.raise(to: .urgent) }
  }

  /// Also those of settled calls.
  private func retransmitPushes(_ turn: inout Turn) {
    guard mayPush else { return }
    for slot in calls.slots {
      let devices = users[calls[slot].facts.callee]?.devices ?? []
      calls[slot].retransmitPushes(devices, &turn)
    }
  }

  private mutating func takeOver(_ id: CallID, _ turn: inout Turn) {
    let callee = calls.slot(of: id).map { calls[$0].facts.callee }
    let devices = callee.flatMap { users[$0] }?.devices ?? []
    let mayPush = mayPush
    let until = callee.flatMap { sessionsUnknownUntil(of: $0, turn) }
    let forwarding = callee.flatMap { users[$0]?.rules }.map { Forwarding($0) }
    mutate(id) { call in
      call.changeRinging {
        $0.sessionsUnknownUntil = until
        $0.calleeHasDevices = !devices.isEmpty
      }
      if let forwarding { call.restore(forwarding) }
      call.takeOver(devices: devices, mayPush: mayPush, &turn)
    }
  }

  // MARK: For the next owner

  /// All calls as they are now, for a checkpoint.
  public var snapshot: ShardSnapshot { ShardSnapshot(calls: calls) }

  /// The fewest entries that rebuild every call.
  public func checkpointEntries() -> [JournalEntry] { snapshot.entries() }
}
