/// Mistakes put into the product on purpose, at the seams of the world, to see that they are found.
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
  /// A command that is said again is carried out again.
  case appliedTwice = "applied-twice"
  /// A device that lost ends the answered call by declining.
  case lateDeclineEnds = "late-decline-ends"
  /// What a device missed is not said again.
  case notRepeated = "not-repeated"
  /// Edges tell a new owner nothing of their sessions.
  case announcementsIgnored = "announcements-ignored"
  /// An acknowledged record is not in the journal any more.
  case recordDropped = "record-dropped"
  /// A device that lost is told that it won.
  case twoWinners = "two-winners"
  /// A stop has no reason.
  case stopWithoutReason = "stop-without-reason"
  /// The caller is not told of the end.
  case callerNotTold = "caller-not-told"
  /// A call's versions do not grow.
  case versionGoesBack = "version-goes-back"
  /// A registration is acknowledged and not stored.
  case registrationNotStored = "registration-not-stored"
  /// A device is told to ring again behind the stop.
  case inviteAfterStop = "invite-after-stop"

  /// Within so many seeds of the usual intensity it is found.
  package static let seedsMost = 20
}
