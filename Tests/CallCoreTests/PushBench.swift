import CallCore

/// Sleeping devices under test: how they register, and what is pushed to them.
extension Bench {
  static let production = "production"

  static func voip(_ token: String) -> PushToken { alert(token, topic: "org.example.voip") }

  static func alert(
    _ token: String, _ provider: PushProvider = .apns, topic: String = "org.example"
  ) -> PushToken {
    PushToken(
      provider: provider, environment: production, topic: topic, token: token,
      fingerprint: "fp-\(token)")
  }

  /// Registers a device of a user with tokens; the store and the claims say yes to everything.
  @discardableResult
  mutating func enrol(
    _ device: String, voip: String? = nil, alert: String? = nil,
    alertProvider: PushProvider = .apns, alertTopic: String = "org.example",
    dialect: String = "", sdk: (String, String) = ("", ""),
    can capabilities: PushCapabilities? = nil, user: String = "bob", hasWebhooks: Bool = false
  ) -> Reply? {
    let request = RegistrationRequest(
      deviceName: "Bob's \(device)", voipToken: voip.map(Self.voip),
      alertToken: alert.map { Self.alert($0, alertProvider, topic: alertTopic) },
      dialect: dialect, sdkName: sdk.0, sdkVersion: sdk.1, capabilities: capabilities)
    let from = effects.count
    let reply = say(
      .register(request), user: user, device: device, callee: user, hasWebhooks: hasWebhooks)
    answerStores()
    return reply ?? firstReply(from)
  }

  /// The first reply since so many effects.
  func firstReply(_ from: Int = 0) -> Reply? {
    for case .reply(_, _, let reply) in effects[from...] { return reply }
    return nil
  }

  /// Answers what the shard wants of the store, until it wants nothing more, and takes it away.
  mutating func answerStores(owner: TokenOwner? = nil) {
    while let index = effects.firstIndex(where: \.isForStore) {
      switch effects.remove(at: index) {
      case .store(_, let token), .remove(_, _, let token), .storeRules(_, _, let token):
        run { $0.registrationStored(token: token, ok: true, now: $1, into: &$2) }
      case .token(let step, let token): answer(step, token, owner)
      default: break
      }
    }
  }

  /// Answers the steps that claim tokens, and nothing else of the store.
  mutating func answerClaims() {
    while let index = effects.firstIndex(where: { if case .token = $0 { true } else { false } }) {
      guard case .token(let step, let token) = effects.remove(at: index) else { return }
      answer(step, token, nil)
    }
  }

  private mutating func answer(_ step: TokenStep, _ token: UInt64, _ owner: TokenOwner?) {
    let result: TokenStepResult =
      switch step {
      case .read: .read(owner, revision: owner == nil ? 0 : 7)
      case .notify: .notified
      case .claim: .claimed
      }
    run { $0.tokenStepDone(token: token, result, now: $1, into: &$2) }
  }

  var pushes: [PushJob] {
    effects.compactMap { if case .push(let job) = $0 { job } else { nil } }
  }

  func pushes(_ device: String) -> [PushPurpose] {
    pushes.filter { $0.device.text == device }.map(\.purpose)
  }

  /// The pushes that the journal holds: "device purpose".
  var journalledPushes: [String] {
    journal.compactMap { entry in
      guard case .pushed(let device, let purpose) = entry.change else { return nil }
      return "\(device.text) \(purpose.name)"
    }
  }

  @discardableResult
  mutating func report(
    _ outcome: PushOutcome, _ device: String, _ purpose: PushPurpose = .ring,
    token: String? = nil, at: Timestamp? = nil, again: Bool = false
  ) -> Reply? {
    let report = PushReport(
      call: Bench.callID, device: DeviceID(device), purpose: purpose,
      fingerprint: "fp-\(token ?? device)", outcome: outcome, at: at ?? now)
    let from = effects.count
    if let reply = say(.pushReport(report), device: device, again: again) { return reply }
    answerStores()
    return firstReply(from)
  }

  func registration(_ device: String, user: String = "bob") -> Registration? {
    shard.inspect(user: UserKey(app: Bench.app, user: user))?.devices
      .first { $0.device == DeviceID(device) }?.registration
  }

  var released: [String] {
    effects.compactMap {
      if case .releaseToken(let fingerprint, _) = $0 { fingerprint } else { nil }
    }
  }

  /// A new owner that has what the store has: journal or checkpoint, and the registrations.
  func successor(checkpoint: Bool, registered: [String], epoch: UInt64 = 2) -> Bench {
    var next = ShardMachine(shard: 0, epoch: epoch, limits: CallLimits())
    next.replay(checkpoint ? shard.checkpointEntries() : journal, now: now)
    next.restore(registered.compactMap { registration($0) })
    var bench = Bench(shard: next, now: now)
    bench.journal = journal
    return bench
  }

  /// A new owner, after the edges have announced these devices.
  func takenOver(
    checkpoint: Bool, registered: [String], attached: [String] = [], after pause: Span = .seconds(0)
  ) -> Bench {
    var next = successor(checkpoint: checkpoint, registered: registered)
    next.now = next.now + pause
    for device in attached { next.say(.attach(Attach(announce: true)), device: device) }
    next.run { $0.begin(now: $1, into: &$2) }
    return next
  }
}

extension Effect {
  var isForStore: Bool {
    switch self {
    case .store, .remove, .storeRules, .token: true
    default: false
    }
  }
}
