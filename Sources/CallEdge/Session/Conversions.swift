internal import CallAuth
package import CallCore
package import CallWire

extension CallError {
  static let missingID = CallError(.invalidField, "A command needs an id greater than 0.")

  static let originNotAllowed = CallError(
    .forbidden, "Pages of this origin may not use this edge: see allowedOrigins.")

  /// With the limits in force.
  static func rateLimited(perSecond: Int, burst: Int, retryAfterMilliseconds: UInt32) -> CallError {
    CallError(
      .rateLimited, "Too many commands: \(perSecond) a second, \(burst) at once.",
      retryAfterMilliseconds: retryAfterMilliseconds)
  }
}

extension DeviceID {
  /// The device that sends a request: the token's, or the one that the request names. The two must not differ. The
  /// error does not say which part of a token does not fit.
  package static func resolve(claimed: String?, named: String) -> Result<DeviceID, CallError> {
    switch (claimed, named) {
    case (nil, ""):
      .failure(
        CallError(
          .invalidDevice, "Name the device: in the token, as `device`, or by HTTP as `?device=`."))
    case (let claimed?, ""): .success(DeviceID(claimed))
    case (nil, let named):
      IdentifierRules.isDevice(named)
        ? .success(DeviceID(named)) : .failure(CallError(.invalidDevice))
    case (let claimed?, let named):
      claimed.hasBytes(of: named)
        ? .success(DeviceID(claimed))
        : .failure(CallError(.notAccepted))
    }
  }
}

extension CallAddress {
  /// The callee, whose shard has the call. An empty callee is the sender.
  func calleeKey(for sender: UserKey) -> UserKey {
    callee.isEmpty || callee.hasBytes(of: sender.user)
      ? sender : UserKey(app: sender.app, user: callee)
  }
}

extension RegistrationRequest {
  /// The request for the shard: with the fingerprints of its tokens.
  /// - Throws: `invalidUserForDialect`.
  package func prepared(for user: UserKey) throws(CallError) -> RegistrationRequest {
    try RegistrationRules.check(self, of: user.user)
    var request = self
    request.voipToken?.fingerprint()
    request.alertToken?.fingerprint()
    return request
  }
}

extension PushToken {
  fileprivate mutating func fingerprint() {
    fingerprint = PushTokenFingerprint.of(provider: provider.name, token: token)
  }
}

extension CloseReason {
  init(_ kind: Notice.Kind) {
    switch kind {
    case .sessionReplaced: self = .sessionReplaced
    // At present no session is closed for its token: it can still be rung.
    case .deviceRemoved, .tokenTaken: self = .deviceRemoved
    // A nearer edge is no reason to close a session.
    case .goAway, .nearer, .unknown: self = .goAway
    case .tokenExpires: self = .tokenExpired
    }
  }
}

extension ServerReply {
  /// The shard's reply to a command as the device sees it. `attached` needs more than that: see `DeviceSession`.
  package init(_ reply: Reply, to body: Command.Body? = nil, device: DeviceID) {
    switch reply {
    case .error(let error): self = .error(error)
    case .done, .attached: self = .done
    case .registered(let expiresAt, let removed, let capabilities):
      var info = RegisteredInfo(
        device: device, expiresAt: expiresAt, removed: removed, capabilities: capabilities)
      if case .register(let request) = body { info.deviceName = request.deviceName }
      self = .registered(info)
    case .call(let state): self = .call(state)
    case .answer(let won, let state): self = .answer(won: won, state)
    case .calls(let live): self = .calls(live)
    case .history(let page): self = .history(page)
    case .rules(let rules): self = .rules(rules)
    // No device asks for what is an app's server's.
    case .app: self = .error(CallError(.internalError))
    }
  }
}

extension EdgeSecret {
  package static var drawn: EdgeSecret {
    EdgeSecret(high: .random(in: .min ... .max), low: .random(in: .min ... .max))
  }

  /// The edge's number in sessions and subjects.
  var number: UInt64 { EdgeNumber.of(secret: high, low) }
}
