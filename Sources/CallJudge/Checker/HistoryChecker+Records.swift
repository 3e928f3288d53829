internal import CallCore

/// Whether every ended call has its record, and no other call has one.
extension HistoryChecker {
  /// The stream took a message. Readers use the first record of a call.
  mutating func recorded(_ records: [CallRecord]) throws(HistoryViolation) {
    for record in records {
      let facts = calls[record.call, default: Facts()]
      try require(
        facts.ended != nil, .recordOfEachCall, record.call, "a record of a call that did not end")
      let difference = Self.difference(record, facts)
      try require(
        difference == nil, .recordOfEachCall, record.call,
        "its record has another \(difference ?? "")")
      calls[record.call]?.isRecorded = true
      judged[.recordOfEachCall, default: 0] += 1
    }
  }

  /// The point on which a record and the journal disagree.
  private static func difference(_ record: CallRecord, _ facts: Facts) -> String? {
    guard let placed = facts.placed, let ended = facts.ended else { return "history" }
    if record.end != ended { return "end" }
    if record.placedAt != placed.placedAt || record.video != placed.video { return "placing" }
    if record.callee != placed.callee || record.caller != placed.caller { return "party" }
    let answer = record.answer
    if answer?.by != facts.answered?.by || answer?.at != facts.answered?.at { return "answer" }
    if record.diversions != facts.recordDiversions { return "way from user to user" }
    for leg in placed.legs where !record.legs.contains(where: { $0.party.device == leg.device }) {
      return "set of devices"
    }
    for leg in record.legs {
      let device = leg.party.device
      let isWinner = Who(leg.party) == facts.holder(ofCaller: false)
      if isWinner != (leg.fate == .won) { return "winner" }
      if facts.tookOver(Who(leg.party)) { continue }
      switch facts.legEnds[facts.key(Who(leg.party))] {
      case .declinedHere where leg.fate != .declined, .busy where leg.fate != .busy:
        return "fate of \(device)"
      case .declinedHere, .busy, .gone, nil: break
      }
    }
    return nil
  }

  func missingRecord(_ call: CallID, _ facts: Facts) -> HistoryViolation? {
    guard facts.ended != nil, !facts.isRecorded else { return nil }
    return HistoryViolation(.recordOfEachCall, "it ended and has no record", call: call)
  }
}

extension HistoryChecker.Facts {
  /// How it went on from user to user, as records and events have it.
  var recordDiversions: [CallRecord.Diversion] {
    func diversion(_ facts: DivertedFacts) -> CallRecord.Diversion {
      CallRecord.Diversion(
        from: facts.from, to: facts.to, reason: facts.reason, by: facts.by, at: facts.at)
    }
    var all = diversions.map(diversion)
    for transfer in transfers {
      var own = ([transfer.start] + transfer.diversions).map(diversion)
      own[0].failed = transfer.end?.reason
      own[0].takenBy = transfer.move.map { moves[$0].to }
      // The vacant side of a call that the app's server placed is not handed over.
      all += own.filter { !$0.from.isEmpty }
    }
    return all
  }
}
