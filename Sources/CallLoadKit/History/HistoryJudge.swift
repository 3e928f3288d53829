package import CallCore
package import CallJudge

/// Compares histories that users read with the calls as devices saw them.
package struct HistoryJudge: Sendable {
  let roster: Roster
  private let fates: [CallID: CallFate]
  /// Whether these are all calls of the run, so that no history can have others.
  private let isWhole: Bool
  /// Whether some nodes were of an earlier version: it stores nothing for users to whom a call went on in vain, and does not
  /// say who answered in place of the callee.
  private let hasFormer: Bool
  /// Half of the calls that a history has at most: the oldest give way to new ones.
  private static let duesMax = 500

  /// The newest calls that each user's history must have, the last one last.
  private let dues: [Int: [CallFate]]

  package init(
    _ fates: some Sequence<CallFate>, isWhole: Bool, hasFormer: Bool = false, roster: Roster
  ) {
    self.roster = roster
    self.isWhole = isWhole
    self.hasFormer = hasFormer
    var byCall: [CallID: CallFate] = [:]
    var dues: [Int: [CallFate]] = [:]
    for fate in fates {
      byCall[fate.call] = fate
      var fate = fate
      if hasFormer { (fate.missedBy, fate.outrung) = ([], []) }
      for user in Self.readers(of: fate, roster) { dues[user, default: []].append(fate) }
    }
    self.fates = byCall
    self.dues = dues.mapValues { Array($0.suffix(Self.duesMax)) }
  }

  /// The users whose histories must have the call; empty where that is not known, or the call gave way to another.
  static func readers(of fate: CallFate, _ roster: Roster) -> [Int] {
    guard fate.isAccepted, let reason = fate.reason, reason != .glare else { return [] }
    let caller = roster.user(of: fate.caller)
    guard fate.wentOn else {
      return [caller] + (roster.user(fate.callee).map { [$0] } ?? []) + thirdReader(of: fate)
    }
    // Users at whom it rang in vain have missed it, or see who answered. The answerer has it, whatever a device saw.
    let answerer = fate.answeredBy.map { [roster.user(of: $0)] }
    return [caller] + (answerer ?? fate.missedBy.sorted())
      + fate.outrung.subtracting(answerer ?? []).sorted()
  }

  package func lacks(_ entries: [HistoryEntry], of user: Int) -> Bool {
    !missing(in: entries, of: user).isEmpty
  }

  private func missing(in entries: [HistoryEntry], of user: Int) -> [CallFate] {
    let found = Set(entries.map(\.call))
    return dues[user, default: []].filter { !found.contains($0.call) }
  }

  /// - Parameter histories: whole ones, by user.
  package func judge(_ histories: [Int: [HistoryEntry]]) -> [Violation<CorrectnessRule>] {
    var found: [Violation<CorrectnessRule>] = []
    var first: [CallID: (user: Int, entry: HistoryEntry)] = [:]
    for (user, entries) in histories.sorted(by: { $0.key < $1.key }) {
      let name = roster.userName(user)
      func find(_ rule: CorrectnessRule, _ call: CallID, _ what: String) {
        found.append(Violation(rule, "the history of \(name) \(what)", call: call))
      }
      for fate in missing(in: entries, of: user) { find(.historyLost, fate.call, "lacks the call") }
      var seen: Set<CallID> = []
      for entry in entries {
        guard seen.insert(entry.call).inserted else {
          find(.historyDoubled, entry.call, "has the call twice")
          continue
        }
        if let what = objection(to: entry, of: user) {
          find(.historyDisagrees, entry.call, what)
        } else if let other = first[entry.call], !agree((user, entry), other) {
          find(
            .historyDisagrees, entry.call,
            "has other times or another end than that of \(roster.userName(other.user))")
        }
        first[entry.call] = first[entry.call] ?? (user, entry)
      }
    }
    return found
  }

  /// The calls that two of these users have.
  package func callsOfBothSides(_ histories: [Int: [HistoryEntry]]) -> Int {
    var counts: [CallID: Int] = [:]
    for entries in histories.values {
      for call in Set(entries.map(\.call)) { counts[call, default: 0] += 1 }
    }
    return counts.values.count { $0 > 1 }
  }

  private func agree(
    _ one: (user: Int, entry: HistoryEntry), _ other: (user: Int, entry: HistoryEntry)
  ) -> Bool {
    if let transfer = fates[one.entry.call]?.transfer {
      return Self.agreeOnTransfer(one, other, transfer)
    }
    let (one, other) = (one.entry, other.entry)
    // For a user whom the call left it was over sooner.
    return one.isOfUserAlone || other.isOfUserAlone
      || one.placedAt == other.placedAt && one.answeredAt == other.answeredAt
        && one.endedAt == other.endedAt && one.reason == other.reason && one.video == other.video
  }

  /// The mismatch between an entry and what devices saw; nil where all fits.
  private func objection(to entry: HistoryEntry, of user: Int) -> String? {
    guard let fate = fates[entry.call] else {
      return isWhole ? "has a call that nobody placed" : nil
    }
    if let transfer = fate.transfer, transfer.terms.user == user {
      return objection(toEntryOfThird: entry, fate, transfer)
    }
    let caller = roster.user(of: fate.caller)
    let isPlaced = user == caller
    if entry.isPlaced != isPlaced { return "says \(isPlaced ? "received" : "placed") of the call" }
    if entry.callee != fate.callee { return "names the callee \(entry.callee)" }
    let peer = isPlaced ? fate.callee : roster.userName(caller)
    if entry.peer != peer { return "names \(entry.peer) as the other side, and not \(peer)" }
    if let what = objection(toAnswererOf: entry, fate, of: user) { return what }
    if !fate.wentOn, !entry.wentTo.isEmpty { return "says that it went on to \(entry.wentTo)" }
    // It has the end that the user's devices got when the call left them.
    if entry.isOfUserAlone { return fate.wentOn ? nil : "says that the call went on" }
    if let reason = Self.reason(in: fate, isPlaced: isPlaced) {
      if reason == .glare { return "has a call that gave way to another one" }
      if entry.reason != reason {
        return "says \(entry.reason.name), and devices were told \(reason.name)"
      }
    }
    return objection(toAnswerOf: entry, fate, of: user, isPlaced: isPlaced)
  }

  /// Who answered in place of the callee, as far as that is known.
  private func objection(
    toAnswererOf entry: HistoryEntry, _ fate: CallFate, of user: Int
  ) -> String? {
    guard fate.transfer == nil, let answerer = fate.answeredBy.map({ roster.user(of: $0) }) else {
      return nil
    }
    let other = fate.wentOn && answerer != user ? roster.userName(answerer) : ""
    return entry.answeredBy == other || hasFormer && entry.answeredBy.isEmpty
      ? nil : "says that \"\(entry.answeredBy)\" answered in place of the callee"
  }

  private func objection(
    toAnswerOf entry: HistoryEntry, _ fate: CallFate, of user: Int, isPlaced: Bool
  ) -> String? {
    let isInPlace = fate.wentOn && !isPlaced && roster.userName(user) != fate.callee
    if isInPlace, fate.answeredBy.map({ roster.user(of: $0) != user }) ?? false {
      return "has a call that the user did not answer"
    }
    if fate.answeredBy != nil, entry.answeredAt == nil { return "lacks the time of the answer" }
    if fate.excludesAnswer, entry.answeredAt != nil { return "says that it was answered" }
    let device = isPlaced ? fate.caller : fate.answeredBy
    if let device, isPlaced || !fate.mayHaveMoved, entry.device != roster.party(device).device {
      return "names the device \(entry.device?.text ?? "of nobody")"
    }
    let by = isInPlace ? fate.callee : ""
    if entry.divertedBy != by { return "says that \"\(entry.divertedBy)\" sent the call on" }
    let mayBeMissed = !isPlaced && (fate.reason?.isMissedCall ?? true)
    if entry.isMissed, !mayBeMissed { return "says that the call was missed" }
    if fate.missedBy.contains(user), mayBeMissed, !entry.isMissed {
      return "does not say that the call was missed"
    }
    return nil
  }
}

extension HistoryEntry {
  /// The call went on, or rang on, without the user, or another one answered: it says how it ended there.
  fileprivate var isOfUserAlone: Bool {
    let isDone = reason == .declined || reason == .answeredElsewhere
    return wentOn || !divertedBy.isEmpty && isDone && answeredAt == nil
  }
}
