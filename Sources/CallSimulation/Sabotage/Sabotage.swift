/// Deliberate mistakes at the seams of the world, to verify that the checker finds them.
package enum Sabotage: String, Sendable, CaseIterable {
  /// Effects leave before the append is acknowledged.
  case speaksBeforeAppend = "speaks-before-append"
  /// The journal takes what a former owner appends, and records do not say what they follow: nothing
  /// tells them apart.
  case noExpectedSequence = "no-expected-sequence"
  /// The store takes what a former owner appends, and readers believe all that they find.
  case chainIgnored = "chain-ignored"
  /// A new owner reads the calls back without their ring timeouts.
  case deadlineLostOnReplay = "deadline-lost-on-replay"
  /// A command that is retransmitted is carried out again: by seed, a signal, a placing, an answer or
  /// what ends the call.
  case appliedTwice = "applied-twice"
  /// A device that lost ends the answered call by declining.
  case lateDeclineEnds = "late-decline-ends"
  case notRepeated = "not-repeated"
  /// Edges tell a new owner nothing of their sessions.
  case announcementsIgnored = "announcements-ignored"
  /// An acknowledged record is not in the journal any more.
  case recordDropped = "record-dropped"
  case twoWinners = "two-winners"
  case stopWithoutReason = "stop-without-reason"
  case callerNotTold = "caller-not-told"
  case versionGoesBack = "version-goes-back"
  case registrationNotStored = "registration-not-stored"
  /// A registration is written over whatever there is, a later owner's too; in bad weather some come
  /// late.
  case registrationUnfenced = "registration-unfenced"
  /// A device is told to ring again behind the stop.
  case inviteAfterStop = "invite-after-stop"
  /// A shard forgets the session of a device behind its attach.
  case sessionForgotten = "session-forgotten"
  /// A shard takes signals that arrive together in another order.
  case signalsSwapped = "signals-swapped"
  /// Edges tell a new owner nothing of their users' second devices.
  case secondDeviceUnannounced = "second-device-unannounced"
  /// A call that is over is pushed: to a shard it never ends.
  case pushedAfterEnd = "pushed-after-end"
  /// The work queue does not know a job again that a new owner adds once more.
  case pushedTwice = "pushed-twice"
  /// Clean-up pushes go to the device that answered, instead of to one that lost.
  case cleanUpToWinner = "clean-up-to-winner"
  /// Who loses a token to another device is not told.
  case formerOwnerNotTold = "former-owner-not-told"
  /// A provider's word that a token is gone counts, though the token was registered since.
  case staleGoneHonoured = "stale-gone-honoured"
  /// A device that declined gets a notice of a missed call.
  case noticeToDecliner = "notice-to-decliner"
  case sentTooLate = "sent-too-late"
  /// Who attaches for a call that is over is told that it rings.
  case attachAnsweredWrongly = "attach-answered-wrongly"
  /// Coordinators believe edges whatever they say, and one is an attacker's.
  case ticketsNotChecked = "tickets-not-checked"

  /// Whether it needs a world with push.
  package var isOfPush: Bool {
    switch self {
    case .pushedAfterEnd, .pushedTwice, .cleanUpToWinner, .formerOwnerNotTold, .staleGoneHonoured,
      .noticeToDecliner, .sentTooLate, .attachAnsweredWrongly:
      true
    default: false
    }
  }

  /// The rule that has to find it, if only this sabotage breaks that rule.
  package var rule: HistoryRule? {
    switch self {
    case .sessionForgotten: .unreachableAttached
    case .signalsSwapped: .signalsInOrder
    case .secondDeviceUnannounced: .attachedRing
    default: nil
    }
  }

  /// The default intensity: some mistakes need more, or fewer, faults to show.
  package var intensity: SimIntensity {
    switch self {
    // An owner has to hang with a registration in hand, which then comes to its next owner anew.
    case .registrationUnfenced: .brutal
    // A call has to ring when nothing was wrong for some seconds.
    case .secondDeviceUnannounced: .calm
    default: .usual
    }
  }

  /// The default number of seeds, within which it is found.
  package var seedsMost: Int {
    switch self {
    // What is not retransmitted has to get lost, at the end of a call, for a device that stays attached.
    case .notRepeated, .registrationUnfenced, .secondDeviceUnannounced: 60
    default: 20
    }
  }
}
