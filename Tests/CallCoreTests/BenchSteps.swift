import CallCore
import Testing

/// The steps that stories of a call have in common.
extension Bench {
  /// Alice calls bob, whose devices ring for so long.
  static func ringing(
    _ devices: String..., seconds: UInt32, limits: CallLimits = CallLimits()
  ) -> Bench {
    calling(devices, seconds: seconds, limits: limits)
  }

  /// The first of bob's devices has answered.
  static func answered(
    _ devices: String..., description: String = "", limits: CallLimits = CallLimits()
  ) -> Bench {
    var bench = calling(devices, limits: limits)
    bench.answer(devices[0], description)
    return bench
  }

  /// Alice and the first of bob's devices talk.
  static func talking(
    _ devices: String..., description: String = "", limits: CallLimits = CallLimits()
  ) -> Bench {
    var bench = calling(devices, limits: limits)
    bench.answer(devices[0], description)
    bench.caller(.connected)
    bench.say(.connected, devices[0])
    return bench
  }

  private static func calling(
    _ devices: [String], seconds: UInt32 = 0, limits: CallLimits
  ) -> Bench {
    var bench = Bench(limits: limits)
    for device in devices { bench.attach(device) }
    bench.place(seconds: seconds)
    return bench
  }

  /// Bob's devices sleep. Each has a token of its own name, by which a push wakes it.
  static func sleeping(
    _ devices: String..., can capabilities: PushCapabilities = [], limits: CallLimits = CallLimits()
  ) -> Bench {
    var bench = Bench(limits: limits)
    for device in devices { bench.enrol(device, voip: device, can: capabilities) }
    _ = bench.take()
    return bench
  }

  // MARK: Commands

  /// Says something about the call, as a device of any user.
  @discardableResult
  mutating func say(
    _ verb: CallVerb, _ device: String, of user: String, session: SessionRef? = nil,
    number: UInt64? = nil
  ) -> Reply? {
    say(.call(Self.callID, verb), user: user, device: device, session: session, number: number)
  }

  @discardableResult
  mutating func caller(_ verb: CallVerb, session: SessionRef) -> Reply? {
    caller(.call(Self.callID, verb), session: session)
  }

  @discardableResult
  mutating func answer(
    _ device: String, _ description: String = "", session: SessionRef? = nil
  ) -> Reply? {
    say(.answer(description: description), device, session: session)
  }

  /// The call as a device of bob's sees it.
  mutating func state(_ device: String) -> CallState? { say(.query, device)?.state }

  /// The call as a device of any user sees it.
  mutating func state(_ device: String, of user: String) -> CallState? {
    say(.query, device, of: user)?.state
  }

  // MARK: Sessions

  @discardableResult
  mutating func attach(_ device: String, session: SessionRef) -> Reply? {
    say(.attach(Attach()), device: device, session: session)
  }

  /// The device attaches because a push of the call woke it.
  @discardableResult
  mutating func wake(_ device: String, session: SessionRef? = nil) -> Reply? {
    say(.attach(Attach(forCall: Self.callID)), device: device, session: session)
  }

  mutating func close(_ device: String, graceful: Bool = false, session: SessionRef? = nil) {
    say(.sessionClosed(graceful: graceful), device: device, session: session)
  }

  // MARK: New owners

  /// An edge announces the device to a new owner.
  mutating func announce(_ device: String) {
    say(.attach(Attach(announce: true)), device: device)
  }

  mutating func begin() {
    run { $0.begin(now: $1, into: &$2) }
  }

  /// A new owner that serves. Edges have announced these of bob's devices to it, and alice's where she is back.
  func nextOwner(
    _ devices: String..., checkpoint: Bool = false, callerIsBack: Bool = false
  ) -> Bench {
    var next = checkpoint ? restoredFromCheckpoint() : takenOver()
    for device in devices { next.announce(device) }
    if callerIsBack { next.caller(.resume) }
    next.begin()
    return next
  }

  /// A new owner that does not serve yet. It goes on with the journal that the former one had.
  func successor(byCheckpoint: Bool, epoch: UInt64) -> Bench {
    var next = byCheckpoint ? restoredFromCheckpoint(epoch: epoch) : takenOver(epoch: epoch)
    next.journal = journal
    return next
  }

  // MARK: Time

  /// The call ends when the span is over, and not before.
  mutating func endsAfter(
    _ span: Span, _ reason: EndReason, sourceLocation: SourceLocation = #_sourceLocation
  ) {
    pass(Span(microseconds: span.microseconds - 1000))
    #expect(ends.isEmpty, sourceLocation: sourceLocation)
    pass(.milliseconds(1))
    #expect(ends.map(\.reason) == [reason], sourceLocation: sourceLocation)
  }
}

// MARK: - Sessions and deliveries

extension Party {
  static let b1 = Party(user: "bob", device: "b1", deviceName: "Bob's b1")
  static let alice1 = Party(user: "alice", device: "alice1")
}

extension Bench {
  /// The deliveries to bob's device on a session of another edge than the first.
  func deliveries(to device: String, edge: UInt64) -> [Delivery] {
    deliveries(to: Self.session(device, edge: edge))
  }

  func stops(_ session: SessionRef) -> [Stop] {
    deliveries(to: session).compactMap { if case .stop(let stop) = $0.event { stop } else { nil } }
  }

  var replies: [Reply] {
    effects.compactMap { if case .reply(_, _, let reply) = $0 { reply } else { nil } }
  }

  /// The store takes no registration.
  mutating func refuseStores() {
    for case .store(_, let token) in take() {
      run { $0.registrationStored(token: token, ok: false, now: $1, into: &$2) }
    }
  }

  /// The device registers a token, which is not claimed yet.
  mutating func register(_ device: String = "b1", voip token: String, again: Bool = false) {
    let request = RegistrationRequest(voipToken: Self.voip(token))
    say(.register(request), device: device, again: again)
  }

  /// Reports b1's ring, and leaves what is to be stored to the test.
  @discardableResult
  mutating func sendReport(_ outcome: PushOutcome, token: String, again: Bool = false) -> Reply? {
    let report = PushReport(
      call: Self.callID, device: "b1", purpose: .ring, fingerprint: "fp-\(token)",
      outcome: outcome, at: now)
    return say(.pushReport(report), device: "b1", again: again)
  }

  /// The registrations that the shard wants stored.
  var stores: [Registration] {
    effects.compactMap { if case .store(let registration, _) = $0 { registration } else { nil } }
  }
}

// MARK: - Calls that go on

extension CallVerb {
  static func handOver(to user: String) -> CallVerb { .transfer(TransferRequest(to: user)) }
}

extension DivertingBench {
  /// The call as the device sees it.
  mutating func state(_ user: String, _ device: String) -> CallState? {
    say(.query, user, device)?.state
  }

  /// The count is 0 until the span is over, and 1 then.
  mutating func countsOne(
    after span: Span, sourceLocation: SourceLocation = #_sourceLocation,
    _ count: (DivertingBench) -> Int
  ) {
    pass(Span(microseconds: span.microseconds - 100_000))
    #expect(count(self) == 0, sourceLocation: sourceLocation)
    pass(.milliseconds(100))
    #expect(count(self) == 1, sourceLocation: sourceLocation)
  }

  /// The user's first device answers, and talks with alice.
  mutating func talk(_ user: String) {
    say(.answer(description: ""), user, "1")
    say(.connected, user, "1")
    asAlice(.connected)
  }
}
