import CallCore
import Testing

/// One shard under test, with the time in hand: what is said to it, and what it says.
struct Bench {
  var shard: ShardMachine
  var now = Timestamp(microseconds: 1_000_000_000_000)
  /// All effects since the last `take`.
  var effects: [Effect] = []
  /// All that went to the journal.
  var journal: [JournalEntry] = []
  /// All that only a bug brings about; a test that provokes some says so.
  var faults: [MachineFault] = []
  var expectsFaults = false
  private var request: UInt64 = 0

  static let app = "demo"
  static let callID = CallID("00000000-0000-4000-8000-000000000001")!

  init(limits: CallLimits = CallLimits(), epoch: UInt64 = 1) {
    shard = ShardMachine(shard: 0, epoch: epoch, limits: limits)
    run { $0.begin(now: $1, into: &$2) }
  }

  init(shard: ShardMachine, now: Timestamp) {
    self.shard = shard
    self.now = now
  }

  mutating func run(_ body: (inout ShardMachine, Timestamp, inout Outcome) -> Void) {
    var outcome = Outcome()
    body(&shard, now, &outcome)
    journal += outcome.entries
    effects += outcome.effects
    faults += outcome.faults
    #expect(expectsFaults || outcome.faults.isEmpty)
  }

  static func session(_ device: String, _ generation: UInt64 = 0, edge: UInt64 = 1) -> SessionRef {
    var number: UInt64 = generation << 32
    for byte in device.utf8 { number = number &* 31 &+ UInt64(byte) }
    return SessionRef(edge: edge, number: number)
  }

  /// Says a command, as `user`'s `device`, and returns the reply; `again`: under the same number as
  /// the last one; `number`: under that one. An edge's announcement has none.
  @discardableResult
  mutating func say(
    _ body: Command.Body, user: String = "bob", device: String, callee: String = "bob",
    session: SessionRef? = nil, again: Bool = false, number: UInt64? = nil, after: UInt64 = 0,
    devicesPerUser: UInt32 = 0, hasWebhooks: Bool = false
  ) -> Reply? {
    if !again { request += 1 }
    var isAnnouncement = false
    if case .attach(let attach) = body { isAnnouncement = attach.announce }
    let request = number ?? (isAnnouncement ? 0 : request)
    var command = Command(
      session: session ?? Self.session(device), request: request,
      user: UserKey(app: Self.app, user: user), device: DeviceID(device),
      callee: UserKey(app: Self.app, user: callee), body: body)
    command.after = after
    command.devicesPerUser = devicesPerUser
    command.hasWebhooks = hasWebhooks
    let from = effects.count
    run { $0.handle(command, now: $1, into: &$2) }
    for effect in effects[from...] {
      if case .reply(_, request, let reply) = effect { return reply }
    }
    return nil
  }

  /// Attaches bob's devices.
  mutating func attach(_ devices: String..., edge: UInt64 = 1) {
    for device in devices {
      say(
        .attach(Attach(deviceName: "Bob's \(device)")), device: device,
        session: Self.session(device, edge: edge))
    }
  }

  /// Alice's phone calls bob.
  @discardableResult
  mutating func place(
    _ id: CallID = callID, seconds: UInt32 = 0, description: String = "offer",
    session: SessionRef? = nil, user: String = "alice", device: String = "alice1"
  ) -> Reply? {
    say(
      .place(PlaceRequest(call: id, ringTimeoutSeconds: seconds, description: description)),
      user: user, device: device, session: session)
  }

  @discardableResult
  mutating func caller(
    _ body: Command.Body, session: SessionRef? = nil, number: UInt64? = nil, after: UInt64 = 0
  ) -> Reply? {
    say(
      body, user: "alice", device: "alice1", session: session, number: number, after: after)
  }

  /// Lets time pass, firing every deadline in its turn.
  mutating func pass(_ span: Span) {
    let end = now + span
    while shard.nextDeadline <= end {
      now = max(now, shard.nextDeadline)
      run { $0.fire(now: $1, into: &$2) }
    }
    now = end
    run { $0.fire(now: $1, into: &$2) }
  }

  mutating func take() -> [Effect] {
    defer { effects = [] }
    return effects
  }

  /// Sessions that the shard ended.
  var closed: [SessionRef] {
    effects.compactMap { if case .close(let session, _) = $0 { session } else { nil } }
  }

  func deliveries(to session: SessionRef) -> [Delivery] {
    effects.compactMap {
      if case .deliver(session, let delivery) = $0 { delivery } else { nil }
    }
  }

  func deliveries(to device: String) -> [Delivery] { deliveries(to: Self.session(device)) }

  func invites(_ device: String) -> [Invite] {
    deliveries(to: device).compactMap {
      if case .invite(let invite) = $0.event { invite } else { nil }
    }
  }

  func stops(_ device: String) -> [Stop] {
    deliveries(to: device).compactMap { if case .stop(let stop) = $0.event { stop } else { nil } }
  }

  func answers(_ device: String = "alice1") -> [Answered] {
    deliveries(to: device).compactMap {
      if case .answered(let answered) = $0.event { answered } else { nil }
    }
  }

  func signals(_ device: String) -> [Signal] {
    deliveries(to: device).compactMap {
      if case .signal(let signal) = $0.event { signal } else { nil }
    }
  }

  /// The devices acknowledge all that was delivered to them so far.
  mutating func acknowledgeAll() {
    for effect in effects {
      guard case .deliver(let session, let delivery) = effect else { continue }
      let caller = session == Self.session("alice1")
      let devices = ["b1", "b2", "b3", "b4"]
      let device = caller ? "alice1" : devices.first { Self.session($0).number == session.number }
      guard let device else { continue }
      say(
        .ack([Acknowledgement(call: delivery.call, version: delivery.version)]),
        user: caller ? "alice" : "bob", device: device, session: session)
    }
  }

  var ends: [EndedFacts] {
    journal.compactMap { if case .ended(let facts) = $0.change { facts } else { nil } }
  }

  /// A new owner of the shard, with all that the journal has and no sessions.
  func takenOver(epoch: UInt64 = 2, limits: CallLimits = CallLimits()) -> Bench {
    var next = ShardMachine(shard: 0, epoch: epoch, limits: limits)
    next.replay(journal, now: now)
    var bench = Bench(shard: next, now: now)
    bench.journal = journal
    return bench
  }

  /// As `takenOver`, by way of a checkpoint.
  func restoredFromCheckpoint(epoch: UInt64 = 2) -> Bench {
    var next = ShardMachine(shard: 0, epoch: epoch, limits: CallLimits())
    next.replay(shard.checkpointEntries(), now: now)
    return Bench(shard: next, now: now)
  }

  /// A new owner that serves, without any session.
  func begun() -> Bench {
    var next = self
    next.run { $0.begin(now: $1, into: &$2) }
    return next
  }
}

extension Reply {
  var error: CallError.Code? {
    if case .error(let error) = self { error.code } else { nil }
  }
  var state: CallState? {
    switch self {
    case .call(let state), .answer(_, let state): state
    case .attached(let state, _, _): state
    case .error, .done, .registered, .calls, .history, .rules, .app: nil
    }
  }
  var won: Bool? {
    if case .answer(let won, _) = self { won } else { nil }
  }
}
