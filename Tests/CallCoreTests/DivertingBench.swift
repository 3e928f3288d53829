import CallCore
import Testing

/// Alice calls bob, and the call goes on to other users: bob's shard has the call, theirs have their devices.
struct DivertingBench {
  static let id = Bench.callID
  /// Bob's.
  var owner = Bench()
  /// Carol's, dave's and all others'.
  var guests = Bench()
  /// The parts that alice's app keeps.
  var subscriptions: Subscriptions = []
  /// Whether alice's app lets calls that go on ring anew.
  var ringsAnew = false
  /// Whether questions and answers arrive.
  var isConnected = true
  private var number: UInt64 = 0
  /// The questions to the other shard.
  private(set) var asked: [(user: String, VisitRequest)] = []
  /// All that the call's shard has delivered and done.
  private(set) var effects: [Effect] = []

  init() {}

  init(owner: Bench, guests: Bench) {
    self.owner = owner
    self.guests = guests
  }

  // MARK: Devices

  mutating func attach(_ user: String, _ device: String, generation: UInt64 = 0) {
    guests.say(
      .attach(Attach(deviceName: "\(user)'s \(device)")), user: user, device: device, callee: user,
      session: Self.session(user, device, generation))
  }

  mutating func leave(_ user: String, _ device: String, generation: UInt64 = 0) {
    guests.say(
      .sessionClosed(graceful: false), user: user, device: device, callee: user,
      session: Self.session(user, device, generation))
  }

  mutating func register(_ user: String, _ device: String) {
    let token = PushToken(
      provider: .apns, environment: "production", topic: "org.example.app.voip",
      token: "token-\(user)-\(device)")
    guests.say(
      .register(
        RegistrationRequest(
          deviceName: device, voipToken: token, capabilities: [.missed, .answeredElsewhere])),
      user: user,
      device: device, callee: user)
    guests.answerStores()
  }

  static func session(_ user: String, _ device: String, _ generation: UInt64 = 0) -> SessionRef {
    Bench.session("\(user)/\(device)", generation, edge: 2)
  }

  // MARK: The call

  @discardableResult
  mutating func place(to users: String..., ring seconds: UInt32 = 0) -> Reply? {
    var request = PlaceRequest(call: Self.id, ringTimeoutSeconds: seconds, description: "offer")
    request.forward = users
    (request.subscriptions, request.ringsAnew) = (subscriptions, ringsAnew)
    let reply = owner.say(.place(request), user: "alice", device: "alice1")
    pump()
    return reply
  }

  @discardableResult
  mutating func say(
    _ verb: CallVerb, _ user: String, _ device: String, generation: UInt64 = 0
  ) -> Reply? {
    let reply = owner.say(
      .call(Self.id, verb), user: user, device: device,
      session: Self.session(user, device, generation))
    pump()
    return reply
  }

  mutating func pass(_ span: Span) {
    let end = owner.now + span
    while true {
      let next = min(owner.shard.nextDeadline, guests.shard.nextDeadline)
      guard next <= end else { break }
      let step = max(next, owner.now) - owner.now
      owner.pass(step)
      guests.pass(step)
      pump()
    }
    let rest = end - owner.now
    owner.pass(rest)
    guests.pass(rest)
    pump()
  }

  /// Carries questions and answers between the shards.
  mutating func pump() {
    while true {
      let effects = owner.take()
      guard !effects.isEmpty else { return }
      self.effects += effects
      for case .visit(let user, let request) in effects {
        asked.append((user.user, request))
        guard isConnected, let answer = visit(user, request) else { continue }
        hear(user.user, answer, to: request)
      }
    }
  }

  /// The other shard's answer.
  mutating func visit(_ user: UserKey, _ request: VisitRequest) -> VisitAnswer? {
    number += 1
    // Bob's shard is asked, too, where a call of his comes back to him.
    var shard = user.user == "bob" ? owner : guests
    let from = shard.effects.count
    shard.say(
      .visit(request), user: user.user, device: "", callee: user.user,
      session: SessionRef(edge: 99, number: number), number: number)
    if user.user == "bob" { owner = shard } else { guests = shard }
    for case .visitAnswer(_, number, let answer) in shard.effects[from...] { return answer }
    return nil
  }

  /// - Parameter request: nil: the last one about the user is answered.
  mutating func hear(_ user: String, _ answer: VisitAnswer, to request: VisitRequest? = nil) {
    let last = asked.last { $0.user == user }
    let request = request ?? last?.1 ?? VisitRequest(call: Self.id, callee: user, caller: "alice")
    owner.run {
      let key = UserKey(app: Bench.app, user: user)
      $0.visited(key, answer, to: request, now: $1, into: &$2)
    }
    pump()
  }

  // MARK: What came of it

  func deliveries(_ user: String, _ device: String, generation: UInt64 = 0) -> [Delivery] {
    let session = Self.session(user, device, generation)
    return effects.compactMap {
      if case .deliver(session, let delivery) = $0 { delivery } else { nil }
    }
  }

  func toCaller() -> [Delivery.Event] {
    let session = Bench.session("alice1")
    return effects.compactMap {
      if case .deliver(session, let delivery) = $0 { delivery.event } else { nil }
    }
  }

  func invites(_ user: String, _ device: String, generation: UInt64 = 0) -> [Invite] {
    deliveries(user, device, generation: generation).compactMap {
      if case .invite(let invite) = $0.event { invite } else { nil }
    }
  }

  /// Without retransmissions.
  func stops(_ user: String, _ device: String, generation: UInt64 = 0) -> [Stop] {
    var versions: Set<UInt64> = []
    return deliveries(user, device, generation: generation).compactMap {
      guard case .stop(let stop) = $0.event, versions.insert($0.version).inserted else {
        return nil
      }
      return stop
    }
  }

  var pushes: [PushJob] {
    effects.compactMap { if case .push(let job) = $0 { job } else { nil } }
  }

  var placedAt: Timestamp {
    for case .placed(let facts) in owner.journal.map(\.change) { return facts.placedAt }
    return owner.now
  }

  var diversions: [DivertedFacts] {
    owner.journal.compactMap {
      if case .diverted(let facts) = $0.change { facts } else { nil }
    }
  }

  /// - Parameter generation: of the sessions of others than alice.
  mutating func acknowledgeAll(generation: UInt64 = 0) {
    for effect in effects {
      guard case .deliver(let session, let delivery) = effect else { continue }
      let known = [("alice", "alice1", Bench.session("alice1"))] + Self.everybody(generation)
      guard let (user, device, _) = known.first(where: { $0.2 == session }) else { continue }
      owner.say(
        .ack([Acknowledgement(call: delivery.call, version: delivery.version)]), user: user,
        device: device, session: session)
    }
    pump()
  }

  private static func everybody(_ generation: UInt64) -> [(String, String, SessionRef)] {
    ["carol", "dave", "erin"].flatMap { user in
      ["1", "2"].map { (user, $0, session(user, $0, generation)) }
    }
  }

  /// New owners of bob's shard with all that the journal has.
  func takenOver() -> DivertingBench {
    var next = DivertingBench(owner: owner.takenOver().begun(), guests: guests)
    next.pump()
    return next
  }
}
