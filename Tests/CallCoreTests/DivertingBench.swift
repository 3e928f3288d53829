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

  /// The call rings at these users, who have a device each.
  /// - Parameters:
  ///   - twoOf: this one has two devices.
  ///   - asleep: this one's are registered and not attached.
  static func ringing(
    _ users: String..., twoOf: String = "", asleep: String = ""
  ) -> DivertingBench {
    var bench = DivertingBench()
    for user in users {
      for device in user == twoOf ? ["1", "2"] : ["1"] {
        if user == asleep { bench.register(user, device) } else { bench.attach(user, device) }
      }
    }
    bench.place(to: users)
    return bench
  }

  /// These users have a device each, and there is no call yet.
  static func attached(_ users: String...) -> DivertingBench {
    var bench = DivertingBench()
    for user in users { bench.attach(user) }
    return bench
  }

  /// The call goes on to these users, whose devices are not known yet: no questions and answers arrive.
  static func unheard(_ users: String...) -> DivertingBench {
    var bench = DivertingBench()
    bench.isConnected = false
    bench.place(to: users)
    return bench
  }

  /// Alice's app keeps these parts, and bob's shard is to store histories.
  mutating func keep(_ subscriptions: Subscriptions) {
    self.subscriptions = subscriptions
    if subscriptions == .history { owner.shard.storedParts = .history }
  }

  // MARK: Devices

  mutating func attach(_ user: String, _ device: String = "1", generation: UInt64 = 0) {
    guests.say(
      .attach(Attach(deviceName: "\(user)'s \(device)")), user: user, device: device, callee: user,
      session: Self.session(user, device, generation))
  }

  mutating func leave(_ user: String, _ device: String = "1", generation: UInt64 = 0) {
    guests.say(
      .sessionClosed(graceful: false), user: user, device: device, callee: user,
      session: Self.session(user, device, generation))
  }

  mutating func register(
    _ user: String, _ device: String = "1", forNotices: Bool = false
  ) {
    func token(_ topic: String) -> PushToken {
      PushToken(
        provider: .apns, environment: "production", topic: topic,
        token: "\(topic)-\(user)-\(device)")
    }
    let request = RegistrationRequest(
      deviceName: device, voipToken: token("org.example.app.voip"),
      alertToken: forNotices ? token("org.example.app") : nil,
      capabilities: forNotices ? [.missedNotice] : [.missed, .answeredElsewhere])
    guests.say(.register(request), user: user, device: device, callee: user)
    guests.answerStores()
  }

  mutating func registerForNotices(_ user: String) { register(user, forNotices: true) }

  /// The device gives up its registration.
  mutating func signOut(_ user: String) {
    guests.say(.unregister("1"), user: user, device: "1", callee: user)
    guests.answerStores()
  }

  static func session(_ user: String, _ device: String = "1", _ generation: UInt64 = 0)
    -> SessionRef
  {
    Bench.session("\(user)/\(device)", generation, edge: 2)
  }

  // MARK: The call

  @discardableResult
  mutating func place(to users: String..., ring seconds: UInt32 = 0) -> Reply? {
    place(to: users, ring: seconds)
  }

  @discardableResult
  mutating func place(to users: [String], ring seconds: UInt32 = 0) -> Reply? {
    var request = PlaceRequest(call: Self.id, ringTimeoutSeconds: seconds, description: "offer")
    request.forward = users
    (request.subscriptions, request.ringsAnew) = (subscriptions, ringsAnew)
    let reply = owner.say(.place(request), user: "alice", device: "alice1")
    pump()
    return reply
  }

  @discardableResult
  mutating func say(
    _ verb: CallVerb, _ user: String, _ device: String = "1", generation: UInt64 = 0
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

  /// Alice's phone says something about the call.
  mutating func caller(_ verb: CallVerb) {
    owner.caller(verb)
    pump()
  }

  /// Says something as the app's server.
  @discardableResult
  mutating func asServer(_ request: AppRequest, _ user: String = "bob") -> AppCall? {
    defer { pump() }
    return owner.server(request, user)?.appCall
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

  /// The entries that the call leaves in histories.
  var entries: [(user: UserKey, entry: HistoryEntry)] {
    owner.shard.historyEntries(of: Self.id)
  }

  /// Bob's shard, with all that it has delivered and done.
  var bob: Bench {
    var bench = owner
    bench.effects = effects
    return bench
  }

  func deliveries(_ user: String, _ device: String = "1", generation: UInt64 = 0) -> [Delivery] {
    bob.deliveries(to: Self.session(user, device, generation))
  }

  func toCaller() -> [Delivery.Event] { bob.deliveries(to: "alice1").map(\.event) }

  func invites(_ user: String, _ device: String = "1", generation: UInt64 = 0) -> [Invite] {
    bob.invites(Self.session(user, device, generation))
  }

  /// Without retransmissions.
  func stops(_ user: String, _ device: String = "1", generation: UInt64 = 0) -> [Stop] {
    var versions: Set<UInt64> = []
    return deliveries(user, device, generation: generation).compactMap {
      guard case .stop(let stop) = $0.event, versions.insert($0.version).inserted else {
        return nil
      }
      return stop
    }
  }

  var pushes: [PushJob] { bob.pushes }

  var placedAt: Timestamp {
    for case .placed(let facts) in owner.journal.map(\.change) { return facts.placedAt }
    return owner.now
  }

  var diversions: [DivertedFacts] {
    owner.journal.compactMap { if case .diverted(let facts) = $0.change { facts } else { nil } }
  }

  /// The devices that joined while it rang.
  var joined: [Party] {
    owner.journal.compactMap { if case .legJoined(let party) = $0.change { party } else { nil } }
  }

  /// - Parameter generation: of the sessions of others than alice.
  mutating func acknowledgeAll(generation: UInt64 = 0) {
    let guests = ["carol", "dave", "erin"].flatMap { user in
      ["1", "2"].map { (user, $0, Self.session(user, $0, generation)) }
    }
    acknowledge(for: [("alice", "alice1", Bench.session("alice1"))] + guests)
  }

  /// Bob's and dave's devices have all that was delivered to them.
  mutating func acknowledgeBob() {
    let bobs = ["b1", "b2"].map { ("bob", $0, Bench.session($0)) }
    acknowledge(for: bobs + ["1", "2"].map { ("dave", $0, Self.session("dave", $0)) })
  }

  private mutating func acknowledge(for known: [(user: String, device: String, SessionRef)]) {
    for case .deliver(let session, let delivery) in effects {
      guard let (user, device, _) = known.first(where: { $0.2 == session }) else { continue }
      let item = Acknowledgement(call: delivery.call, version: delivery.version)
      owner.say(.ack([item]), user: user, device: device, session: session)
    }
    pump()
  }

  /// New owners of bob's shard with all that the journal has.
  func takenOver() -> DivertingBench {
    var next = DivertingBench(owner: owner.takenOver().begun(), guests: guests)
    next.pump()
    return next
  }
}
