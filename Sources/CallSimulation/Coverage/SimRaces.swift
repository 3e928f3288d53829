internal import CallCore
internal import CallJudge

package enum SimRaces {
  /// So many seeds must meet each of them.
  package static let seeds = 400

  package static let required = [
    "R1", "R2", "R2 timeout", "R3", "R4", "R5", "R6", "R7", "R8", "R8 merged", "R8 moved",
    "R8 in mid-ring", "R8 called back",
    "R9", "R10", "R10 deadline",
    "R10 pushed", "R11", "R12", "R13", "R13 in mid-ring", "R14", "R15", "R16", "R17 early",
    "R17 of a loser", "R17 after the end", "R18", "R19", "R19 pushed", "R20", "R21", "R22", "R23",
    "R24 of the caller", "R24 of the callee", "R24 two at once", "R24 new owner",
    "R25", "R25 answered", "R25 declined by one", "R25 new owner",
    "R25 group", "R25 queue", "R25 turn",
    "R26", "R26 of the caller", "R26 of the callee", "R26 declined", "R26 unanswered",
    "R26 cancelled",
    "R26 again", "R26 new owner", "R26 consulted",
    "R27 always", "R27 busy", "R27 noAnswer", "R27 unreachable", "R27 doNotDisturb", "R27 silent",
    "R27 excepted", "R27 first devices", "R27 others", "R27 circle", "R27 five times",
    "R27 too often", "R27 new owner",
    "R28", "R28 answered", "R28 taken", "R28 declined", "R28 unanswered", "R28 cancelled",
    "R28 new owner", "R29 second call", "R29 stored name",
  ]

  /// Faults that must occur, so that an injector without effect is found. Faults that occur ten times
  /// in a thousand seeds, or less, are left out (`racing put taken`).
  package static let requiredFaults =
    [
      "crash", "all crash", "freeze", "stutter", "shutdown", "replaced while frozen",
      "cut off alone", "cut off in a group", "line stalls", "store restart",
      "edge crash", "edge freeze", "edge drain",
      "NATS killed", "NATS stopped", "cut off for long", "all edges freeze",
      "edge freezes for long",
      "message lost", "message delayed", "message reordered", "message repeated",
      "write lost", "write answer lost", "write late", "write failed", "write refused",
      "read lost", "read stale", "racing append taken",
    ].map { "fault.\($0)" }

  /// Commands that must occur during outages, and rules that seldom have something to judge.
  package static let requiredBeside: [String] =
    ["place", "answer", "signal"].map { "in outage.\($0)" }
    + ["signal.information", "signal.information too early"]
    + ["app.ignores the call of its former run"]
    + requiredRules.map { "judged.\($0.rawValue)" }

  private static let requiredRules: [HistoryRule] = [
    .unreachableAttached, .attachedRing, .signalsInOrder, .movesTold, .ongoingSeen, .transfersTold,
    .rulesFollowed, .silenceKept, .firstRingFirst, .secondCallTold, .namesShown, .listsWhole,
    .answersCount, .winnersTold, .missedRightly, .signalsArrive, .hookFollowed,
  ]

  package static let requiredAnswers =
    [
      "placed", "ringing", "answeredElsewhere", "declined", "busy", "cancelled", "unanswered",
      "unreachable", "unknown",
    ].map { "late attach.\($0)" }

  /// Pushes of every purpose, their outcomes, and the faults on their way.
  package static let requiredOfPush =
    PushPurpose.allCases.map { "push.\($0.name)" }
    + ["accepted", "tokenGone", "rejected", "expired", "failed"].map { "outcome.\($0)" }
    + ["crash", "freeze", "shutdown"].map { "fault.gateway \($0)" }
    + ["slow", "silent", "refusing"].map { "fault.provider \($0)" }
    + [
      "fault.gateway crash with jobs", "fault.job lost on its way", "fault.settlement lost",
      "queue.handed out again", "provider.lost", "provider.late", "provider.doubled",
      "provider.gone", "provider.gone without a time", "provider.sent again",
      "phone.woken", "phone.woken while it is on", "phone.never wakes", "phone.wakes late",
      "phone.decline by HTTP", "phone.busy by HTTP", "phone.query by HTTP", "phone.HTTP answered",
      "phone.push to the former user", "token.renewed", "token.removed", "token.moved",
      "token.signed out",
    ]

  package static func missing(in counts: [String: Int]) -> [String] {
    required.filter { counts["race.\($0)", default: 0] == 0 }
      + (requiredFaults + requiredBeside + requiredAnswers + requiredOfPush).filter {
        counts[$0, default: 0] == 0
      }
  }
}
