package import CallCore

/// One side of an answered call is handed over to a third user.
package struct TransferTerms: Sendable, Equatable {
  /// The user who is to take the side.
  package var user: Int
  /// It is the caller's side; else the callee's.
  package var ofCaller: Bool
  /// The call in which the user is asked before; nil: the user is not asked.
  package var consulted: CallID?

  package init(user: Int, ofCaller: Bool, consulted: CallID? = nil) {
    self.user = user
    self.ofCaller = ofCaller
    self.consulted = consulted
  }
}

/// The course of a call's transfer, drawn from the seed.
struct TransferScript: Sendable, Equatable {
  let terms: TransferTerms
  /// Those of the third user.
  let devices: Range<Int>
  /// The one of them that acts.
  let actor: Int
  /// From the first of their invites to that.
  let act: Span
  /// It answers; else it declines for its user.
  let answers: Bool

  /// An unanswered transfer ends after this time: the cluster's own ring timeout.
  static let ringTimeout: Span = .seconds(30)

  init(
    user: Int, devices: Range<Int>, act: Span, answers: Bool, consulted: CallID?,
    _ random: inout SplitMix64
  ) {
    terms = TransferTerms(
      user: user, ofCaller: Bool.random(using: &random), consulted: consulted)
    self.devices = devices
    actor = Int.random(in: devices, using: &random)
    self.act = act
    self.answers = answers
  }
}
