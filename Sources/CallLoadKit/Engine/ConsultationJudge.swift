import CallCore

/// Judges pairs of calls: in one a device asks a third user, the other one it hands over to that user then. When the
/// third user has it, the first of the pair ends as transferred, and not otherwise.
struct ConsultationJudge: Sendable {
  /// Pairs of which only the call that was to be handed over is judged, by the other one. True where a device has
  /// taken the side.
  private var isTaken: [CallID: Bool] = [:]

  /// The call that was to be handed over is judged first.
  mutating func judged(_ record: CallRecord, isOtherOpen: Bool) {
    guard isOtherOpen, let consulted = record.transfer?.terms.consulted else { return }
    isTaken[consulted] = record.taker != nil
  }

  /// The call in which the third user was asked is judged.
  /// - Parameter first: the one that was to be handed over, if it is not judged yet.
  /// - Returns: what is wrong with it; nil: nothing.
  mutating func objection(
    to record: CallRecord, first: CallRecord?, _ timeline: FaultTimeline
  ) -> String? {
    let known = isTaken.removeValue(forKey: record.facts.call)
    guard record.facts.part == .consulted, record.facts.during != nil,
      let taken = first.map({ $0.taker != nil }) ?? known, let reason = record.caller.end?.reason
    else { return nil }
    if reason == .transferred {
      return taken ? nil : "it ended as transferred, and nobody has taken the other call"
    }
    let until = record.trace.last?.at ?? record.facts.placedAt
    let isExcused = timeline.isDisturbed(
      shards: record.shards + (first?.shards ?? []),
      or: record.facts.devices + (first?.facts.devices ?? []), from: record.facts.placedAt,
      to: until)
    return !taken || isExcused
      ? nil : "the other call was handed over, and it did not end with that"
  }
}
