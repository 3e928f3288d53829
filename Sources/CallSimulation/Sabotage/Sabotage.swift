package import CallJudge

/// Deliberate mistakes at the seams of the world, to verify that the checker finds them.
package enum Sabotage: String, Sendable, CaseIterable {
  case speaksBeforeAppend, noExpectedSequence, chainIgnored, deadlineLostOnReplay, appliedTwice,
    lateDeclineEnds, notRepeated, announcementsIgnored, recordDropped, twoWinners,
    stopWithoutReason, callerNotTold, versionGoesBack, registrationNotStored,
    registrationUnfenced, callerNameLost, placersAnnounced, crossingUnnoticed, mergeNotAsked,
    calledBackInVain,
    talkingNotTold, ongoingEndHidden, ongoingUnannounced, survivorNotNamed, visitNotAsked,
    divertedToCaller, chosenTimeIgnored, winnerBelievedBack, turnSkipped, pullNotCompared,
    formerNotStopped, takeoverInvented, endToldAsMoved, moveNotTold, transferMisdirected,
    transferEndUntold, transferRepeated, consultedGoesOn, recordsNotTakenOver, recordLost,
    recordInvented, recordWithoutWay, historyLost, historyInvented, historyChangeUntold,
    eventLost, eventInvented, registrationUnfollowed, inviteAfterStop, sessionForgotten,
    signalsSwapped, secondDeviceUnannounced, pushedAfterEnd, pushedTwice, cleanUpToWinner,
    formerOwnerNotTold, staleGoneHonoured, pushGivenUp, refusedTokenGone, noticeToDecliner,
    sentTooLate, attachAnsweredWrongly, rulesLost, ruleMisread, silenceForgotten,
    stagesForgotten, othersNotWanted, placedForAnother, chosenDeviceIgnored, liveCallUnlisted,
    readMarkIgnored, secondNotCalled, secondCallHidden, namesNotTold, answersIgnored,
    winnerNotTold, missedMistold, signalsEmptied, hookIgnored, ticketsNotChecked, losersNotStopped,
    winnerMisnamed, winnerToldItLost, endToldTwice, repliesLost, refusedForNothing,
    callerToldOtherwise, ringsTooLong, forwarderNotNamed, transferorNotNamed, secondCallInvented,
    endOfTalkNotTold, otherDeviceRung, turnsReversed

  /// The name on the command line: `two-winners` for `twoWinners`.
  package var name: String {
    rawValue.reduce(into: "") { $0 += $1.isUppercase ? "-\($1.lowercased())" : "\($1)" }
  }

  package init?(name: String) {
    guard let found = Self.allCases.first(where: { $0.name == name }) else { return nil }
    self = found
  }

  package struct Facts: Sendable {
    package var seam: Seam
    package var summary: String
    /// The rule that has to find it, if only this sabotage breaks that rule.
    package var rule: HistoryRule?
    var needs: Needs
    /// The kind of calls that it needs many of; nil: any.
    var calls: CallScript.Kind?
    /// The default intensity: some mistakes need more, or fewer, faults to show.
    package var intensity: SimIntensity
    /// The default number of seeds, within which it is found.
    package var seeds: Int
  }

  /// Where the mistake is.
  package enum Seam: String, Sendable {
    case toShard = "to shards"
    case toEdge = "to edges"
    case coordinator, device, journal, bucket, stream, provider
    case workQueue = "work queue"
  }

  /// Properties of the world, which others have by chance.
  struct Needs: OptionSet {
    var rawValue: Int
    static let push = Self(rawValue: 1 << 0)
    static let rules = Self(rawValue: 1 << 1)
    /// The app's server places calls and sets names.
    static let server = Self(rawValue: 1 << 2)
    static let hook = Self(rawValue: 1 << 3)
    static let webhooks = Self(rawValue: 1 << 4)
    static let history = Self(rawValue: 1 << 5)
    /// Devices see their users' calls.
    static let ongoing = Self(rawValue: 1 << 6)
    static let busyWhileInCall = Self(rawValue: 1 << 7)
    /// A call that goes on rings as long as its caller chose.
    static let callersTime = Self(rawValue: 1 << 8)
    static let appsForget = Self(rawValue: 1 << 9)
    static let rogueEdge = Self(rawValue: 1 << 10)
    /// People call back when a call has left them.
    static let callsBack = Self(rawValue: 1 << 11)
  }

  func row(
    _ seam: Seam, _ summary: String, _ rule: HistoryRule? = nil, needs: Needs = [],
    calls: CallScript.Kind? = nil, in intensity: SimIntensity = .usual, seeds: Int = 20
  ) -> Facts {
    Facts(
      seam: seam, summary: summary, rule: rule, needs: needs, calls: calls, intensity: intensity,
      seeds: seeds)
  }
}
