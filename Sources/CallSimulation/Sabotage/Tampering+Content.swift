internal import CallCore
internal import CallWire

/// Mistakes with pushes.
extension Tampering {
  /// Puts pushes into a shard's record, or changes them.
  func changePushes(_ record: inout JournalRecord) {
    var entries: [JournalEntry] = []
    for var entry in record.entries {
      var behind: [JournalEntry.Change] = []
      switch entry.change {
      case .placed(let facts): legs[entry.call] = facts.legs.map(\.device)
      case .answered(let facts): winners[entry.call] = facts.by
      case .pushed(let device, let purpose):
        legs[entry.call]?.removeAll { $0 == device }
        if sabotage == .cleanUpToWinner, purpose.isCleanUp, let winner = winners[entry.call] {
          entry.change = .pushed(winner.device, purpose)
        }
      case .ended(let end):
        if sabotage == .pushedAfterEnd, let device = legs[entry.call]?.first {
          behind.append(.pushed(device, .ring))
        }
        if sabotage == .noticeToDecliner, end.reason == .declined, let by = end.by {
          behind.append(.pushed(by.device, .missedNotice))
        }
      default: break
      }
      entries.append(entry)
      entries += behind.map { JournalEntry(call: entry.call, change: $0) }
    }
    record.entries = entries
  }

  static func withLaterDeadline(_ bytes: [UInt8]) -> [UInt8] {
    edit(bytes, ClusterCodec.pushJob, ClusterCodec.encode) {
      $0.deadline = $0.deadline + .seconds(20)
    }
  }

  /// A report that a token is gone, dated in the future.
  static func asIfNew(_ report: PushReport) -> PushReport {
    guard case .tokenGone = report.outcome else { return report }
    var report = report
    report.outcome = .tokenGone(at: report.at + .seconds(3600))
    return report
  }

  /// Reports an ended call as ringing to a device that attaches for it.
  func ringing(_ frame: ServerFrame) -> ServerFrame {
    guard case .reply(let id, .attached(var info)) = frame, var state = info.forCall,
      state.phase == .ended
    else { return frame }
    state.phase = .ringing
    state.reason = nil
    state.by = nil
    info.forCall = state
    return .reply(id: id, .attached(info))
  }
}

/// Swaps two signals of one device and call that arrive together. Retransmissions are swapped the
/// same way.
struct SignalSwaps {
  private struct Key: Hashable {
    var session: SessionRef
    var request: UInt64
  }
  private var bodies: [Key: Command.Body] = [:]

  mutating func apply(to batch: inout CommandBatch) {
    var last: Int?
    for index in batch.commands.indices {
      let command = batch.commands[index]
      guard case .call(let call, .signal) = command.body else { continue }
      let key = Key(session: command.session, request: command.request)
      if let body = bodies[key] {
        batch.commands[index].body = body
        continue
      }
      bodies[key] = command.body
      guard let before = last.take(), case .call(call, .signal) = batch.commands[before].body,
        batch.commands[before].session == command.session
      else {
        last = index
        continue
      }
      swap(before, index, &batch)
    }
  }

  private mutating func swap(_ one: Int, _ other: Int, _ batch: inout CommandBatch) {
    let body = batch.commands[one].body
    batch.commands[one].body = batch.commands[other].body
    batch.commands[other].body = body
    for index in [one, other] {
      let command = batch.commands[index]
      bodies[Key(session: command.session, request: command.request)] = command.body
    }
  }
}

/// Sabotage of calls that go on to others.
extension Tampering {
  static func skipTurns(_ record: inout JournalRecord) {
    for index in record.entries.indices {
      guard case .diverted(var facts) = record.entries[index].change, facts.queue.count > 1 else {
        continue
      }
      facts.to = [facts.queue[1]]
      record.entries[index].change = .diverted(facts)
    }
  }

  static func reverseTurns(_ record: inout JournalRecord) {
    for index in record.entries.indices {
      guard case .diverted(var facts) = record.entries[index].change, facts.queue.count > 1 else {
        continue
      }
      facts.queue.reverse()
      facts.to = [facts.queue[0]]
      record.entries[index].change = .diverted(facts)
    }
  }

  func divertToCallers(_ record: inout JournalRecord) {
    for index in record.entries.indices {
      let entry = record.entries[index]
      switch entry.change {
      case .placed(let facts): holders[entry.call] = [facts.caller]
      case .diverted(var facts):
        guard let caller = holders[entry.call]?.first, !facts.to.isEmpty else { continue }
        facts.to = [caller.user]
        record.entries[index].change = .diverted(facts)
      default: break
      }
    }
  }
}

/// Sabotage of users' rules.
extension Tampering {
  /// Calls go on to another user than the rules say.
  static func misreadRules(_ record: inout JournalRecord) {
    for index in record.entries.indices {
      guard case .diverted(var facts) = record.entries[index].change,
        [.always, .busy, .noAnswer, .unreachable].contains(facts.reason), let one = facts.to.first
      else { continue }
      facts.to[0] = one.hasBytes(of: SimOptions.user(5)) ? SimOptions.user(6) : SimOptions.user(5)
      record.entries[index].change = .diverted(facts)
    }
  }

  static func editRules(
    _ key: String, _ value: [UInt8], _ change: (inout UserRules) -> Void
  ) -> [UInt8] {
    guard SimOptions.user(rulesKey: key) != nil else { return value }
    return edit(value, ClusterCodec.rules, ClusterCodec.encode) { change(&$0.rules) }
  }
}

/// Sabotage of call records.
extension Tampering {
  /// As if every end had its record.
  static func markRecorded(_ record: inout JournalRecord) {
    record.entries = record.entries.flatMap { entry in
      if case .ended = entry.change {
        return [entry, JournalEntry(call: entry.call, change: .recorded)]
      }
      return [entry]
    }
  }

  /// An entry of a call that there is not.
  static func withOtherCall(_ bytes: [UInt8]) -> [UInt8] {
    edit(bytes, ClusterCodec.historyMessage, ClusterCodec.encode) { message in
      guard case .entry(var entry) = message else { return }
      entry.call = CallID(high: entry.call.high, low: ~entry.call.low)
      message = .entry(entry)
    }
  }

  static func withInventedEvent(_ bytes: [UInt8]) -> [UInt8] {
    guard let batch = try? ClusterCodec.appEvents(bytes) else { return bytes }
    var events = batch.events.compactMap(\.self)
    guard var one = events.last(where: { $0.gone == nil }) else { return bytes }
    one.call = CallID(high: one.call.high, low: ~one.call.low)
    events.append(one)
    return ClusterCodec.encode(events)
  }

  static func withoutWays(_ bytes: [UInt8]) -> [UInt8] {
    guard var records = (try? ClusterCodec.callRecords(bytes))?.records else { return bytes }
    for index in records.indices { records[index].diversions = [] }
    return ClusterCodec.encode(records)
  }

  static func withInvention(_ bytes: [UInt8]) -> [UInt8] {
    guard var records = (try? ClusterCodec.callRecords(bytes))?.records, var one = records.last
    else { return bytes }
    one.call = CallID(high: one.call.high, low: ~one.call.low)
    records.append(one)
    return ClusterCodec.encode(records)
  }
}
