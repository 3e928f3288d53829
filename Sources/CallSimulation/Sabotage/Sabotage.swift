/// Deliberate mistakes at the seams of the world, to verify that the checker finds them.
package enum Sabotage: String, Sendable, CaseIterable {
  /// Effects leave before the append is acknowledged.
  case speaksBeforeAppend = "speaks-before-append"
  /// The journal takes a former owner's appends, and records do not name their predecessor.
  case noExpectedSequence = "no-expected-sequence"
  /// The store takes a former owner's appends, and readers accept every record.
  case chainIgnored = "chain-ignored"
  /// A new owner replays the calls with ring timeouts that never come.
  case deadlineLostOnReplay = "deadline-lost-on-replay"
  /// A command is applied twice: by seed a signal, a placing, an answer or an end.
  case appliedTwice = "applied-twice"
  /// A device that lost ends the answered call by declining.
  case lateDeclineEnds = "late-decline-ends"
  case notRepeated = "not-repeated"
  /// Edges announce no sessions to a new owner.
  case announcementsIgnored = "announcements-ignored"
  /// The journal loses an acknowledged record.
  case recordDropped = "record-dropped"
  case twoWinners = "two-winners"
  case stopWithoutReason = "stop-without-reason"
  case callerNotTold = "caller-not-told"
  case versionGoesBack = "version-goes-back"
  case registrationNotStored = "registration-not-stored"
  /// Registrations are written unconditionally, and some of them late while there are faults.
  case registrationUnfenced = "registration-unfenced"
  /// A new owner's record of a call lacks the caller's display name.
  case callerNameLost = "caller-name-lost"
  /// Edges announce devices that only place calls as others.
  case placersAnnounced = "placers-announced"
  /// Edges do not report that two calls cross.
  case crossingUnnoticed = "crossing-unnoticed"
  /// The shard of a call that gave way does not ask the other one's to connect both devices.
  case mergeNotAsked = "merge-not-asked"
  /// Edges do not report the answered calls that a user has placed.
  case talkingNotTold = "talking-not-told"
  /// Devices are not sent that their user is in no call any more.
  case ongoingEndHidden = "ongoing-end-hidden"
  /// Edges do not tell a new owner which devices see their user's calls.
  case ongoingUnannounced = "ongoing-unannounced"
  /// A call that gave way ends without saying for which one.
  case survivorNotNamed = "survivor-not-named"
  /// The shard of a call that goes on to other users does not ask for their devices.
  case visitNotAsked = "visit-not-asked"
  /// A call goes on to the user who placed it.
  case divertedToCaller = "diverted-to-caller"
  /// A call that goes on to others rings longer than its caller chose.
  case chosenTimeIgnored = "chosen-time-ignored"
  /// A device that attaches counts as back in its call, whatever its app knows of it.
  case winnerBelievedBack = "winner-believed-back"
  /// The first member of a group in whose queue a call is has no turn.
  case turnSkipped = "turn-skipped"
  /// A device takes a call over, whoever has it.
  case pullNotCompared = "pull-not-compared"
  /// The device that had a call is not stopped when another one takes it over.
  case formerNotStopped = "former-not-stopped"
  /// A device that is refused a call which another one has taken over is told that it has it.
  case takeoverInvented = "takeover-invented"
  /// A device whose call was hung up is told that another device of its user has it.
  case endToldAsMoved = "end-told-as-moved"
  /// The other side is not told of the device that took a call over.
  case moveNotTold = "move-not-told"
  /// A call is transferred to another user than the one who was named.
  case transferMisdirected = "transfer-misdirected"
  /// The side that transfers a call is not told that nobody took it.
  case transferEndUntold = "transfer-end-untold"
  /// A shard takes a transfer that is repeated for a further one.
  case transferRepeated = "transfer-repeated"
  /// The shard of a call in which a device asked about another one is not told that it has served its purpose.
  case consultedGoesOn = "consulted-goes-on"
  /// A new owner does not store the records that its predecessor did not store.
  case recordsNotTakenOver = "records-not-taken-over"
  /// The stream of call records acknowledges a message and loses it.
  case recordLost = "record-lost"
  /// The stream gets the record of a call that there never was.
  case recordInvented = "record-invented"
  /// Records do not say that a call went on to others, or was transferred.
  case recordWithoutWay = "record-without-way"
  /// The store acknowledges an entry of a history and loses it.
  case historyLost = "history-lost"
  /// A history gets an entry of a call that there never was.
  case historyInvented = "history-invented"
  /// A session gets the first state of its user's history, and none of the later ones.
  case historyChangeUntold = "history-change-untold"
  /// The stream of events for webhooks acknowledges a message and loses it.
  case eventLost = "event-lost"
  /// The stream gets an event of a call that there never was.
  case eventInvented = "event-invented"
  /// Edges do not say with registrations that the app has webhooks.
  case registrationUnfollowed = "registration-unfollowed"
  /// A device gets an invite after the stop.
  case inviteAfterStop = "invite-after-stop"
  /// A shard forgets a device's session right after its attach.
  case sessionForgotten = "session-forgotten"
  /// A shard takes signals that arrive together in the wrong order.
  case signalsSwapped = "signals-swapped"
  /// Edges do not announce their users' second devices to a new owner.
  case secondDeviceUnannounced = "second-device-unannounced"
  /// A shard decides a push for a call that has ended.
  case pushedAfterEnd = "pushed-after-end"
  /// The work queue does not deduplicate a job that a new owner adds again.
  case pushedTwice = "pushed-twice"
  /// Clean-up pushes go to the device that answered, instead of to one that lost.
  case cleanUpToWinner = "clean-up-to-winner"
  /// The former owner of a token is not notified that another device has it.
  case formerOwnerNotTold = "former-owner-not-told"
  /// A provider's report of an invalid token counts though the token was registered since.
  case staleGoneHonoured = "stale-gone-honoured"
  /// A gateway gives a push up after the first answer that is not final.
  case pushGivenUp = "push-given-up"
  /// A gateway reports a token as gone that its provider has refused for a moment.
  case refusedTokenGone = "refused-token-gone"
  /// A device that declined gets a notice of a missed call.
  case noticeToDecliner = "notice-to-decliner"
  case sentTooLate = "sent-too-late"
  /// A device that attaches for an ended call is answered that it rings.
  case attachAnsweredWrongly = "attach-answered-wrongly"
  /// The store acknowledges a user's rules and loses them.
  case rulesLost = "rules-lost"
  /// The journal sends a call on to others than the rules say.
  case ruleMisread = "rule-misread"
  /// A new owner does not read that a user is not to be disturbed.
  case silenceForgotten = "silence-forgotten"
  /// A new owner does not read which devices ring first.
  case stagesForgotten = "stages-forgotten"
  /// The shard of a call that went on to a user does not say that none of the user's first devices rings any more.
  case othersNotWanted = "others-not-wanted"
  /// The app's server has a call placed to another user than it said.
  case placedForAnother = "placed-for-another"
  /// All devices of the user who is called first ring, and not only the one that the app's server chose.
  case chosenDeviceIgnored = "chosen-device-ignored"
  /// A shard leaves a call out of the lists of live ones.
  case liveCallUnlisted = "live-call-unlisted"
  /// A user has read a history, and it is not marked.
  case readMarkIgnored = "read-mark-ignored"
  /// The shard of a call that the app's server placed does not ask for the second user's devices.
  case secondNotCalled = "second-not-called"
  /// Invites to a second call do not say that it is one.
  case secondCallHidden = "second-call-hidden"
  /// Sessions do not get the names that the app's server sets.
  case namesNotTold = "names-not-told"
  /// Coordinators do not verify edges' commands, and one edge is an attacker's.
  case ticketsNotChecked = "tickets-not-checked"

  /// Whether it needs a world with push.
  package var isOfPush: Bool {
    switch self {
    case .pushedAfterEnd, .pushedTwice, .cleanUpToWinner, .formerOwnerNotTold, .staleGoneHonoured,
      .pushGivenUp, .refusedTokenGone,
      .noticeToDecliner, .sentTooLate, .attachAnsweredWrongly:
      true
    default: false
    }
  }

  /// Whether it needs a world in which users have rules.
  var isOfRules: Bool {
    switch self {
    case .rulesLost, .ruleMisread, .silenceForgotten, .stagesForgotten, .othersNotWanted,
      .chosenTimeIgnored:
      true
    default: false
    }
  }

  /// Whether it needs a world in which the app's server places calls and sets names.
  var isOfServer: Bool {
    switch self {
    case .placedForAnother, .secondNotCalled, .namesNotTold, .chosenDeviceIgnored,
      .liveCallUnlisted:
      true
    default: false
    }
  }

  /// The kind of calls that it needs many of; nil: any.
  var callKind: CallScript.Kind? {
    switch self {
    case .pullNotCompared, .formerNotStopped, .takeoverInvented, .moveNotTold: .pulled
    case .transferMisdirected, .transferEndUntold, .transferRepeated: .transferred
    case .consultedGoesOn: .consulted
    case .secondNotCalled, .chosenDeviceIgnored: .placedByServer
    case .othersNotWanted: .declinedHere
    case .crossingUnnoticed, .mergeNotAsked, .survivorNotNamed: .crossing
    default: nil
    }
  }

  /// The rule that has to find it, if only this sabotage breaks that rule.
  package var rule: HistoryRule? {
    switch self {
    case .sessionForgotten: .unreachableAttached
    case .signalsSwapped: .signalsInOrder
    case .secondDeviceUnannounced: .attachedRing
    case .placersAnnounced: .placersDoNotRing
    case .talkingNotTold: .busyInCall
    case .pushGivenUp: .sleepersAreRung
    case .refusedTokenGone: .tokensKept
    case .ongoingEndHidden, .ongoingUnannounced: .ongoingSeen
    case .recordsNotTakenOver, .recordLost, .recordInvented, .recordWithoutWay: .recordOfEachCall
    case .historyLost, .historyInvented: .historyOnBothSides
    case .historyChangeUntold, .readMarkIgnored: .historySeen
    case .eventLost, .eventInvented, .registrationUnfollowed: .learnsOfEachCall
    case .crossingUnnoticed, .mergeNotAsked, .survivorNotNamed: .crossingsMerge
    case .visitNotAsked: .divertedRing
    case .divertedToCaller: .divertedOnce
    case .chosenTimeIgnored: .chosenTimeHolds
    case .winnerBelievedBack: .callsEnd
    case .turnSkipped: .turnsInOrder
    case .pullNotCompared, .takeoverInvented: .movesOnce
    case .endToldAsMoved: .appendThenSpeak
    case .moveNotTold, .formerNotStopped: .movesTold
    case .transferMisdirected, .transferRepeated: .transfersAsked
    case .transferEndUntold: .transfersTold
    case .consultedGoesOn: .consultedEnd
    case .rulesLost: .rulesKept
    case .ruleMisread: .rulesFollowed
    case .silenceForgotten: .silenceKept
    case .stagesForgotten, .othersNotWanted: .firstRingFirst
    case .placedForAnother, .chosenDeviceIgnored: .placedAsAsked
    case .liveCallUnlisted: .listsWhole
    case .secondNotCalled: .secondRings
    case .secondCallHidden: .secondCallTold
    case .namesNotTold: .namesShown
    default: nil
    }
  }

  /// The default intensity: some mistakes need more, or fewer, faults to show.
  package var intensity: SimIntensity {
    switch self {
    // An owner has to freeze while it writes a registration, which the next owner writes as well.
    case .registrationUnfenced: .brutal
    // A call has to ring after some seconds without faults.
    case .secondDeviceUnannounced, .crossingUnnoticed, .mergeNotAsked, .talkingNotTold,
      .moveNotTold, .formerNotStopped, .visitNotAsked, .transferEndUntold, .consultedGoesOn,
      .secondNotCalled, .namesNotTold, .othersNotWanted:
      .calm
    default: .usual
    }
  }

  /// The default number of seeds, within which it is found.
  package var seedsMost: Int {
    switch self {
    // A delivery at a call's end has to get lost for a device that stays attached.
    case .notRepeated, .registrationUnfenced, .secondDeviceUnannounced: 60
    // A user has to be called in a call that it placed, while nothing is wrong. Users are busy there in each world.
    case .talkingNotTold: 60
    // All first devices of a user to whom a call went on have to decline, while nothing is wrong.
    case .othersNotWanted: 60
    default: 20
    }
  }
}
