/// A registration that is claiming its push tokens, one after the other.
struct PendingClaim: Sendable {
  let registration: Registration
  let reply: PendingReply?
  /// The cluster's limits, with the app's own where those are lower.
  let limits: CallLimits
  /// The fingerprint of the token that is being claimed.
  private(set) var fingerprint: String
  /// The fingerprints of the tokens that are still to be claimed.
  private(set) var further: ArraySlice<String>
  /// How many times a token was read again because its claim had changed, plus one.
  private(set) var attempts = 1
  private(set) var step = Step.reading

  enum Step: Sendable, Equatable {
    /// The claim is being read. Can become: notifying, claiming.
    case reading
    /// The former owner's shard is removing the token from it. `revision`: that of the claim that was read. Can become:
    /// claiming.
    case notifying(revision: UInt64)
    /// The claim is being written over the revision that was read. Can become: reading, this token again or the next.
    case claiming
  }

  /// - Parameter fingerprints: those of its tokens.
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

  /// The action that follows from the result of a step.
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

/// A write of a registration, or of a user's rules, that is on its way to the store.
struct PendingStore: Sendable {
  enum What: Sendable {
    case register(Registration, removed: [DeviceID])
    /// `endsSession`: the device's session ends with the registration.
    case remove(UserKey, DeviceID, endsSession: Bool)
    /// The registration without a token, which memory has dropped already. `claim`: the token of a claim in this shard
    /// that waits for this. `gone`: the push token, if its provider no longer accepts it.
    case tokenRemoved(UserKey, DeviceID, claim: UInt64?, gone: GoneToken?)
    /// A user's rules, or their removal (nil), and the reply to send then.
    indirect case rules(UserKey, UserRules?, Reply)
    /// The registration with what a provider's answer has shown of a token.
    case noted(Registration)
    /// Only the time changed at which the device was seen.
    case seen
  }
  var what: What
  /// nil: no reply is wanted.
  var reply: PendingReply?
}

/// A push token that its provider no longer accepts (R12).
struct GoneToken: Sendable {
  var fingerprint: String
  /// Claims that were made later than this stay.
  var at: Timestamp
}

/// A registration, or one of its tokens, that is removed once its app's stream has the event.
struct PendingGone: Sendable {
  enum What: Sendable {
    /// A provider no longer accepts a token.
    case refused(PushReport)
    /// Another device registers a token. `claim`: the token of that device's claim, if it waits in this shard.
    case taken(fingerprint: String, claim: UInt64?)
    /// The whole registration, if it is still the one of that time.
    case registration(GoneCause, registeredAt: Timestamp)
  }
  var user: UserKey
  var device: DeviceID
  var what: What
  /// nil: no reply is wanted.
  var reply: PendingReply?

  func isAbout(_ user: UserKey, _ device: DeviceID) -> Bool {
    self.user == user && self.device == device
  }

  /// Whether another device registers this token of a device.
  func isTaken(_ fingerprint: String, _ user: UserKey, _ device: DeviceID) -> Bool {
    guard case .taken(fingerprint, _) = what else { return false }
    return isAbout(user, device)
  }
}

/// The place of a later reply.
struct PendingReply: Sendable, Equatable {
  var session: SessionRef
  var request: UInt64

  /// nil: the command wants no reply.
  init?(_ command: Command) {
    guard command.request != 0 else { return nil }
    session = command.session
    request = command.request
  }

  func send(_ reply: Reply, _ turn: inout Turn) {
    turn.perform(.reply(session, request: request, reply))
  }
}
