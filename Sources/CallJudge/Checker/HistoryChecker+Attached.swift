internal import CallCore
internal import CallWire

/// Rules for devices that are attached by their own view: they received the reply to their attach, and
/// their connection has had no fault since.
extension HistoryChecker {
  // MARK: Links

  /// The links of a user's devices, in order.
  func links(ofUser user: String) -> [Link] {
    (linksOf[userKey(user)] ?? []).sorted().compactMap { links[$0] }
  }

  /// The numbers of a device's links, in order.
  func links(of who: Who) -> [Int] {
    (linksOf[userKey(who.user)] ?? []).filter { links[$0]?.who == who }.sorted()
  }

  mutating func remove(_ link: Int) {
    guard let user = links.removeValue(forKey: link)?.who.user else { return }
    linksOf[userKey(user)]?.remove(link)
  }

  // MARK: Attached devices and owners of shards

  mutating func attached(_ who: Who, on link: Int) {
    unansweredAttaches[who]?.remove(link)
    for other in links(of: who) where other != link { links[other]?.attachedAt = nil }
    if links[link]?.attachedAt == nil { links[link]?.attachedAt = now }
  }

  mutating func noteOwner(of shard: Int, _ record: JournalRecord) {
    guard owners[shard]?.epoch != record.epoch else { return }
    let node = record.writer.prefix { $0 != "/" }
    owners[shard] = Owner(epoch: record.epoch, node: String(node), since: now)
  }

  /// Links of the callee's devices that were attached before the caller sent the place, and that the
  /// call has to ring.
  func witnesses(_ facts: Facts) -> [Link] {
    guard let placed = facts.placed, let asked = facts.placeSentAt else { return [] }
    return links(ofUser: placed.callee.user).filter { link in
      guard let since = link.attachedAt, since <= asked,
        link.who != Who(placed.caller), !app.onlyPlaces(link.who),
        placed.onlyDevice.map({ $0.text == link.who.device }) ?? true
      else { return false }
      switch facts.legEnds[facts.key(link.who)] {
      // It refused, by HTTP perhaps.
      case .declinedHere, .busy: return false
      case .gone, nil: break
      }
      // An unanswered attach may replace the session whenever it arrives.
      return unansweredAttaches[link.who]?.isEmpty ?? true
    }
  }

  func isFull(_ facts: Facts) -> Bool {
    guard let placed = facts.placed, let placedAt = facts.placedAt else { return false }
    let others = calls(of: placed.callee.user).count {
      $0.facts.placed?.callee == placed.callee && $0.facts.placedAt ?? .distantFuture < placedAt
        && $0.facts.endedAt ?? .distantFuture > placedAt
    }
    return others >= liveCallsPerDevice
  }

  /// Whether the shard's owner, the link, its edge and the lines between them had no fault.
  func isQuiet(
    _ link: Link, _ shard: Int, from start: Timestamp, until end: Timestamp
  ) -> Bool {
    if let disturbed = link.disturbedAt, disturbed > start { return false }
    // Nothing says who owns the shard.
    guard seesJournal else { return nodes.values.allSatisfy { $0.isCalm(from: start, until: end) } }
    guard let owner = owners[shard], owner.since <= start else { return false }
    return ["", owner.node, link.edge].allSatisfy {
      nodes[$0]?.isCalm(from: start, until: end) ?? true
    }
  }

  // MARK: Unreachable

  /// Why a call must not end as unreachable; nil when it may.
  ///
  /// No fault excuses an end before `waitForDevices`: a shard that may lack sessions has to wait. After
  /// that the device may be unreachable without having noticed, unless there was no fault.
  func unreachableThoughAttached(
    _ end: EndedFacts, _ facts: Facts, _ record: JournalRecord
  ) -> String? {
    guard end.reason == .unreachable, let placed = facts.placed, let placedAt = facts.placedAt
    else { return nil }
    if !facts.diversions.isEmpty { return unreachableThoughOthersAttached(facts) }
    // Both times are by the owner's clock; a later owner has another clock.
    let isSameOwner = record.epoch == facts.epoch
    let waitedUntil = isSameOwner ? end.at : now + bounds.skew
    let since = isSameOwner ? placed.placedAt : placedAt
    let isAtOnce = waitedUntil + .milliseconds(100) < since + bounds.waitForDevices
    for link in witnesses(facts) {
      let isQuiet = isQuiet(link, facts.shard, from: now - bounds.takeover, until: now)
      guard isAtOnce || isQuiet, !isFull(facts) else { continue }
      let attached = (now - (link.attachedAt ?? now)).microseconds / 1000
      return "\(link.who) has been attached at \(link.edge) for \(attached) ms"
        + (isQuiet ? ", and nothing was wrong" : "")
    }
    return nil
  }

  // MARK: Ringing

  /// An attached device that got no invite to a ringing call, though there was no fault.
  mutating func notRung(_ call: CallID, _ facts: Facts) -> HistoryViolation? {
    guard let placedAt = facts.placedAt, facts.diversions.isEmpty else { return nil }
    for link in witnesses(facts) {
      let due = placedAt + bounds.ring + stage(of: link.who)
      guard due < facts.overAt ?? now, due < now,
        isQuiet(link, facts.shard, from: placedAt - bounds.takeover, until: due)
      else { continue }
      if facts.told[link.who]?.invited ?? false {
        judged[.attachedRing, default: 0] += 1
      } else if !isFull(facts) {
        return HistoryViolation(
          .attachedRing, "\(link.who) is attached at \(link.edge), and hears nothing of the call",
          call: call)
      }
    }
    return nil
  }
}
