import CallCore
import Testing

/// One shard under test, with the time in hand: what is said to it, and what it says.
struct Bench {
  /// The user whose shard it is, who speaks and is called unless a command says otherwise.
  var home = "bob"
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

  /// Alice's phone has called bob, who has these devices.
  static func ringing(_ devices: String..., limits: CallLimits = CallLimits()) -> Bench {
    var bench = Bench(limits: limits)
    for device in devices { bench.attach(device) }
    bench.place()
    return bench
  }

  /// Bob has these devices, and no call yet.
  static func attached(_ devices: String..., limits: CallLimits = CallLimits()) -> Bench {
    var bench = Bench(limits: limits)
    for device in devices { bench.attach(device) }
    return bench
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
    _ body: Command.Body, user: String? = nil, device: String, callee: String? = nil,
    session: SessionRef? = nil, again: Bool = false, number: UInt64? = nil, after: UInt64 = 0,
    attachedAt: Timestamp = Timestamp(microseconds: 0), devicesPerUser: UInt32 = 0,
    hasWebhooks: Bool = false
  ) -> Reply? {
    if !again { request += 1 }
    var isAnnouncement = false
    if case .attach(let attach) = body { isAnnouncement = attach.announce }
    let request = number ?? (isAnnouncement ? 0 : request)
    var command = Command(
      session: session ?? Self.session(device), request: request,
      user: UserKey(app: Self.app, user: user ?? home), device: DeviceID(device),
      callee: UserKey(app: Self.app, user: callee ?? home), body: body)
    command.after = after
    command.attachedAt = attachedAt
    command.devicesPerUser = devicesPerUser
    command.hasWebhooks = hasWebhooks
    let from = effects.count
    run { $0.handle(command, now: $1, into: &$2) }
    for case .reply(_, request, let reply) in effects[from...] { return reply }
    return nil
  }

  /// Attaches bob's devices.
  mutating func attach(_ devices: String..., edge: UInt64 = 1) {
    for device in devices {
      let session = Self.session(device, edge: edge)
      say(.attach(Attach(deviceName: "Bob's \(device)")), device: device, session: session)
    }
  }

  /// Alice's phone calls bob.
  @discardableResult
  mutating func place(
    _ id: CallID = callID, seconds: UInt32 = 0, description: String = "offer",
    session: SessionRef? = nil, user: String = "alice", device: String = "alice1"
  ) -> Reply? {
    let request = PlaceRequest(call: id, ringTimeoutSeconds: seconds, description: description)
    return say(.place(request), user: user, device: device, session: session)
  }

  /// Says something about the call, as a device of bob's.
  @discardableResult
  mutating func say(
    _ verb: CallVerb, _ device: String, session: SessionRef? = nil, again: Bool = false,
    number: UInt64? = nil
  ) -> Reply? {
    say(.call(Self.callID, verb), device: device, session: session, again: again, number: number)
  }

  @discardableResult
  mutating func caller(
    _ body: Command.Body, session: SessionRef? = nil, number: UInt64? = nil, after: UInt64 = 0
  ) -> Reply? {
    say(body, user: "alice", device: "alice1", session: session, number: number, after: after)
  }

  /// Says something about the call, as alice's phone.
  @discardableResult
  mutating func caller(_ verb: CallVerb, number: UInt64? = nil, after: UInt64 = 0) -> Reply? {
    caller(.call(Self.callID, verb), number: number, after: after)
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

  /// The notices to sessions that the shard ended.
  var notices: [Notice.Kind] {
    effects.compactMap { if case .close(_, let notice) = $0 { notice.kind } else { nil } }
  }

  func deliveries(to session: SessionRef) -> [Delivery] {
    effects.compactMap { if case .deliver(session, let delivery) = $0 { delivery } else { nil } }
  }

  func deliveries(to device: String) -> [Delivery] { deliveries(to: Self.session(device)) }

  private func events(_ session: SessionRef) -> [Delivery.Event] {
    deliveries(to: session).map(\.event)
  }

  private func events(_ device: String) -> [Delivery.Event] { events(Self.session(device)) }

  func invites(_ session: SessionRef) -> [Invite] {
    events(session).compactMap { if case .invite(let invite) = $0 { invite } else { nil } }
  }

  func invites(_ device: String) -> [Invite] { invites(Self.session(device)) }

  func stops(_ device: String) -> [Stop] {
    events(device).compactMap { if case .stop(let stop) = $0 { stop } else { nil } }
  }

  func answers(_ device: String = "alice1") -> [Answered] {
    events(device).compactMap { if case .answered(let answered) = $0 { answered } else { nil } }
  }

  func signals(_ session: SessionRef) -> [Signal] {
    events(session).compactMap { if case .signal(let signal) = $0 { signal } else { nil } }
  }

  func signals(_ device: String) -> [Signal] { signals(Self.session(device)) }

  /// The devices acknowledge all that was delivered to them so far.
  mutating func acknowledgeAll() {
    for case .deliver(let session, let delivery) in effects {
      let isCaller = session == Self.session("alice1")
      let known = isCaller ? ["alice1"] : ["b1", "b2", "b3", "b4"]
      guard let device = known.first(where: { Self.session($0).number == session.number })
      else { continue }
      let item = Acknowledgement(call: delivery.call, version: delivery.version)
      say(.ack([item]), user: isCaller ? "alice" : "bob", device: device, session: session)
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
    (bench.home, bench.journal) = (home, journal)
    return bench
  }

  /// As `takenOver`, by way of a checkpoint.
  func restoredFromCheckpoint(epoch: UInt64 = 2) -> Bench {
    var next = ShardMachine(shard: 0, epoch: epoch, limits: CallLimits())
    next.replay(shard.checkpointEntries(), now: now)
    return Bench(shard: next, now: now)
  }

  /// A new owner that serves. The edges have announced sessions of these devices, and no others.
  func begun(announcing devices: String...) -> Bench {
    var next = self
    for device in devices { next.say(.attach(Attach(announce: true)), device: device) }
    next.run { $0.begin(now: $1, into: &$2) }
    return next
  }
}

extension CallLimits {
  /// The defaults, but for what is set here.
  static func with(_ set: (inout CallLimits) -> Void) -> CallLimits {
    var limits = CallLimits()
    set(&limits)
    return limits
  }
}

extension CallVerb {
  static func answer() -> CallVerb { .answer(description: "") }
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
  /// The sentence of a refusal.
  var message: String? {
    if case .error(let error) = self { error.message } else { nil }
  }
  var appCall: AppCall? {
    if case .app(.call(let call)) = self { call } else { nil }
  }
  /// The calls of a list for the app's server.
  var appCalls: [CallID]? {
    if case .app(.calls(let list)) = self { list.calls.map(\.state.call) } else { nil }
  }
}
