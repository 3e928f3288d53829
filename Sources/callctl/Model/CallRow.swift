package import CallCore
package import CallTelemetry
internal import CallWire

/// One call of a list, from its record or from its shard.
package struct CallRow: Sendable, Equatable {
  /// Without an end while the call goes on. A row from a shard has only the parties and a few times.
  package var record: CallRecord
  /// placed, ringing, answered or ended.
  package var phase: String
  /// Where it goes on; nil for a record.
  package var shard: Int?
  package var owner: String?

  package init(_ record: CallRecord) {
    self.record = record
    phase = "ended"
  }

  /// nil if a node's answer is impossible.
  package init?(_ call: ListedCall) {
    guard let id = CallID(call.call) else { return nil }
    func time(_ milliseconds: Int64) -> Timestamp {
      let (micros, overflows) = milliseconds.multipliedReportingOverflow(by: 1000)
      return Timestamp(microseconds: overflows ? 0 : micros)
    }
    func party(_ party: CallReport.Party) -> Party {
      Party(user: party.user, device: DeviceID(party.device), deviceName: party.deviceName)
    }
    record = CallRecord(
      call: id, callee: UserKey(app: call.app, user: call.callee), caller: party(call.caller),
      placedAt: time(call.placedAtMilliseconds))
    record.answer = call.winner.map {
      CallRecord.Answer(by: party($0), at: Timestamp(microseconds: 0))
    }
    (phase, shard, owner) = (call.phase, call.shard, call.owner)
    guard call.phase == "ended" else { return }
    let reason = call.reason.flatMap { name in EndReason.allCases.first { $0.name == name } }
    record.end = EndedFacts(
      reason: reason ?? .failed, by: nil, at: time(call.endedAtMilliseconds ?? 0), missed: false)
  }

  /// Live calls first, the newest first; then ended ones, the last that ended first.
  package func precedes(_ other: CallRow) -> Bool {
    switch (record.end, other.record.end) {
    case (nil, .some): return true
    case (.some, nil): return false
    case (nil, nil): return record.placedAt > other.record.placedAt
    case (let end?, let others?): return end.at > others.at
    }
  }

  /// The record's JSON, with the phase, and where the call goes on.
  package var json: String {
    var text = String(decoding: ClusterCodec.json(record).dropLast(), as: UTF8.self)
    text += ",\"phase\":\(JSONWriter.quoted(phase))"
    if let shard { text += ",\"shard\":\(shard)" }
    if let owner { text += ",\"owner\":\(JSONWriter.quoted(owner))" }
    return text + "}"
  }
}

/// Which calls are listed; nil: all.
package struct CallFilter: Sendable {
  package var app: String?
  /// The caller, the callee, or one whose devices it rang: a member of a group, say.
  package var user: String?
  package var reason: EndReason?
  /// Calls that go on, or ended since.
  package var since: Timestamp?

  package init(
    app: String? = nil, user: String? = nil, reason: EndReason? = nil, since: Timestamp? = nil
  ) {
    self.app = app
    self.user = user
    self.reason = reason
    self.since = since
  }

  package func matches(_ record: CallRecord) -> Bool {
    if let app, !app.hasBytes(of: record.callee.app) { return false }
    if let user, !record.users.contains(where: { $0.hasBytes(of: user) }) { return false }
    if let reason, record.end?.reason != reason { return false }
    if let since, let end = record.end, end.at < since { return false }
    return true
  }
}

extension CallRecord {
  /// Whom it concerns.
  fileprivate var users: [String] {
    [callee.user, caller.user] + (answer.map { [$0.by.user] } ?? []) + legs.map(\.party.user)
  }
}

/// Identifies a call. Its id alone does not: devices choose ids, so two strangers' calls may have the same one.
package struct CallKey: Hashable, Sendable {
  package var callee: UserKey
  package var call: CallID

  package init(_ record: CallRecord) {
    callee = record.callee
    call = record.call
  }
}

/// The rows of a list, each call once. A call that its shard still lists may have a record as well: the record says
/// more. Of two records the one counts that was stored first.
package struct CallRows: Sendable {
  private var rows: [CallKey: CallRow] = [:]

  package init() {}

  package var count: Int { rows.count }

  package mutating func add(_ row: CallRow) { rows[CallKey(row.record)] = row }

  /// Adds a call that a shard lists. A record has more.
  package mutating func addKnown(_ row: CallRow) {
    let key = CallKey(row.record)
    if rows[key] == nil { rows[key] = row }
  }

  /// The first ones, in order.
  package func first(_ limit: Int) -> [CallRow] {
    Array(rows.values.sorted { $0.precedes($1) }.prefix(limit))
  }

  /// When the earliest of them ended that has a record.
  package var earliestEnd: Timestamp? {
    rows.values.filter { $0.owner == nil }.compactMap(\.record.end?.at).min()
  }
}
