/// A registration on its way to its push tokens, one token after the other.
struct PendingClaim: Sendable {
  let registration: Registration
  let reply: PendingReply?
  /// With what the app allows.
  let limits: CallLimits
  /// Of the token that is being claimed.
  private(set) var fingerprint: String
  /// Of the tokens that follow.
  private(set) var further: ArraySlice<String>
  /// How often a token was read.
  private(set) var attempts = 1
  private(set) var step = Step.reading

  enum Step: Sendable, Equatable {
    /// The claim is read. Can become: notifying, claiming.
    case reading
    /// The former owner's shard takes the token from it. `revision`: of the claim that was read.
    /// Can become: claiming.
    case notifying(revision: UInt64)
    /// The claim is written over the revision that was read. Can become: reading, of this token or the next.
    case claiming
  }

  /// - Parameter fingerprints: of its tokens.
  init(
    _ registration: Registration, _ fingerprints: [String], _ reply: PendingReply?,
    _ limits: CallLimits
  ) {
    self.registration = registration
    self.reply = reply
    self.limits = limits
    fingerprint = fingerprints.first ?? ""
    further = fingerprints.dropFirst()
  }

  /// What follows from the result of a step.
  enum Next: Equatable {
    case read
    case notify(TokenOwner)
    case claim(revision: UInt64)
    /// All tokens are the registration's.
    case store
    case giveUp
    /// The result does not fit the step, which goes on.
    case unexpected
  }

  mutating func stepDone(_ result: TokenStepResult) -> Next {
    switch (step, result) {
    case (.reading, .read(let owner, let revision)):
      if let owner, owner.user != registration.user || owner.device != registration.device {
        step = .notifying(revision: revision)
        return .notify(owner)
      }
      step = .claiming
      return .claim(revision: revision)
    case (.notifying(let revision), .notified):
      step = .claiming
      return .claim(revision: revision)
    case (.claiming, .claimed):
      guard let next = further.popFirst() else { return .store }
      fingerprint = next
      step = .reading
      return .read
    case (.claiming, .changed):
      guard attempts < limits.tokenClaimAttempts else { return .giveUp }
      attempts += 1
      step = .reading
      return .read
    case (_, .failed): return .giveUp
    case (.reading, .notified), (.reading, .claimed), (.reading, .changed), (.notifying, .read),
      (.notifying, .claimed), (.notifying, .changed), (.claiming, .read), (.claiming, .notified):
      return .unexpected
    }
  }
}
