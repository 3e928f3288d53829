package import CallCore
internal import CallWire

/// Calls that were judged leave the memory, so that a long run takes no more of it than a short one.
extension HistoryChecker {
  /// Forgets the calls that ended more than `span` ago. What must be there of such a call by then, and is not, breaks a
  /// rule.
  ///
  /// Choose a span in which commands, deliveries, records and pushes of an ended call arrive, whatever fails: later
  /// ones are not judged, except for an invite, which breaks a rule whenever it comes.
  package mutating func forget(after span: Span, now: Timestamp) -> [HistoryViolation] {
    self.now = now
    let ended = calls.filter { isBygone($0.value, for: span) }
    var found: [HistoryViolation] = []
    for (call, facts) in ended.inOrder {
      if let violation = missing(of: call, facts) { found.append(violation) }
      forget(call, isOver: true)
    }
    let bygone = now - span
    asked = asked.mapValues { $0.filter { bygone < $0.value.at } }.filter { !$0.value.isEmpty }
    attachTimes = attachTimes.mapValues { Array($0.suffix(Self.attachesMost)) }
    calendar.forget(before: bygone - span)
    for node in nodes.keys { nodes[node]?.forget(before: bygone - span) }
    let long = Span(microseconds: Self.spansUntilUnknown * span.microseconds)
    forgotten = forgotten.filter { now < $0.value.at + long }
    return found
  }

  private func isBygone(_ facts: Facts, for span: Span) -> Bool {
    if let over = facts.endedAt ?? facts.endToldAt { return over + span < now }
    guard !seesJournal else { return false }
    // Devices alone do not show the end of a call that went on without them.
    let long = Span(microseconds: Self.spansUntilUnknown * span.microseconds)
    return (facts.acceptedAt ?? facts.placeSentAt ?? facts.firstInvitedAt).map { $0 + long < now }
      ?? true
  }

  /// A shard that changes its owner again and again notifies devices of an end as often, before the call settles.
  private static let spansUntilUnknown: Int64 = 10

  /// The newest attaches of a device that are kept.
  private static let attachesMost = 8

  /// Judges no more of a call: it was judged, or a rule was broken, after which others would be, too.
  /// - Parameter isOver: it was judged to its end.
  package mutating func forget(_ call: CallID, isOver: Bool = false) {
    guard let facts = calls.removeValue(forKey: call) else { return }
    forgotten[call] = (now, isOver)
    senders.forget(call)
    live.removeAll { $0 == call }
    gaveWay.removeAll { $0 == call }
    crossings.removeAll { $0.placed == call || $0.rung == call }
    for user in facts.users {
      let key = userKey(user)
      callsOf[key]?.removeAll { $0 == call }
      if callsOf[key]?.isEmpty == true { callsOf[key] = nil }
    }
  }

  /// A reader of the journal lacks what a shard has stored from now on: nothing is known of its calls.
  package mutating func missesRecords(of shard: Int, now: Timestamp) {
    self.now = now
    unread.insert(shard)
    owners[shard] = nil
    for (call, facts) in calls.inOrder where facts.placed != nil && facts.shard == shard {
      forget(call)
    }
  }

  /// The reader has the shard's next records. Any call may have been placed in those that it lacks.
  package mutating func findsRecords(of shard: Int, now: Timestamp) {
    self.now = now
    unread.remove(shard)
    for (call, facts) in calls.inOrder where facts.placed == nil { forget(call) }
  }

  /// Forgets the calls of an event whose shards' records are missing.
  mutating func forgetUnread(_ event: HistoryEvent) {
    for (call, callee) in addresses(event) {
      guard unread.contains(ShardHash.shard(of: userKey(callee), count: shardCount)) else {
        continue
      }
      forget(call)
      forgotten[call] = forgotten[call] ?? (now, false)
    }
  }

  /// The calls that an event is about, each with the user who was called.
  private func addresses(_ event: HistoryEvent) -> [(CallID, String)] {
    func own(_ address: CallAddress?, _ who: Who) -> [(CallID, String)] {
      address.map { [($0.call, $0.callee.isEmpty ? who.user : $0.callee)] } ?? []
    }
    func shown(_ calls: OngoingCalls?) -> [(CallID, String)] {
      calls?.calls.map { ($0.call, $0.callee) } ?? []
    }
    switch event {
    case .sent(let who, _, let frame): return own(frame.command.address, who)
    case .push(.asked(let who, _, let command)): return own(command.address, who)
    case .received(let who, _, .delivery(let delivery)):
      return own(CallAddress(callee: delivery.callee, call: delivery.call), who)
    case .received(_, _, .ongoing(let ongoing)): return shown(ongoing)
    case .received(_, _, .reply(_, .attached(let info))):
      return shown(info.ongoing) + (info.forCall.map { [($0.call, $0.callee)] } ?? [])
    case .received(_, _, .reply(_, .calls(let live))):
      return (live.placed + live.received).map { ($0.call, $0.callee) }
    case .received(let who, _, .reply(let id, _)):
      return own(asked[who]?[id]?.command.address, who)
    default: return []
    }
  }

  /// The rule that an ended call breaks by what it lacks in the store when all had time; nil: it lacks nothing.
  func missing(of call: CallID, _ facts: Facts) -> HistoryViolation? {
    guard sight.contains(.streams) else { return nil }
    return (keepsRecords ? missingRecord(call, facts) : nil)
      ?? (keepsHistory ? missingHistory(call, facts) : nil) ?? missingEvent(call, facts)
  }

  package var callCount: Int { calls.count }

  // MARK: The calls of a user

  /// A user has, or may get, a part in a call.
  mutating func concerns(_ call: CallID, _ user: String, _ facts: inout Facts) {
    guard !facts.users.contains(where: { $0.hasBytes(of: user) }) else { return }
    facts.users.append(user)
    // Users whose names are equal for Unicode have one key.
    let key = userKey(user)
    if callsOf[key]?.contains(call) != true { callsOf[key, default: []].append(call) }
  }

  /// The calls in which a user has a part, in the order in which the user got it.
  func calls(of user: String) -> [(id: CallID, facts: Facts)] {
    callsOf[userKey(user), default: []].compactMap { id in calls[id].map { (id, $0) } }
  }

  /// The calls among these that have been placed and have not ended.
  func liveCalls(of user: String) -> [(id: CallID, facts: Facts)] {
    calls(of: user).filter { $0.facts.placed != nil && $0.facts.ended == nil }
  }
}
