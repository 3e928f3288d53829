import CallBus
import CallCoordinator
import CallCore
import CallWire
import Synchronization

/// A work queue that behaves as the test sets it to.
final class TestOutlet: WorkQueue {
  enum Mood: Sendable {
    case takes, refuses
    /// Says nothing until it takes or refuses again.
    case silent
    /// Answers at once that the outcome is unknown, as a bus does while the queue has no leader.
    case leaderless
  }
  private struct State {
    var mood = Mood.takes
    var offered: [PushJob] = []
    var kept: [PushJob] = []
    var waiting: [AppendCompletion] = []
  }
  private let state = Mutex(State())

  var offered: [PushJob] { state.withLock { $0.offered } }
  var kept: [PushJob] { state.withLock { $0.kept } }

  func be(_ mood: Mood) {
    let waiting = state.withLock { state in
      state.mood = mood
      defer { state.waiting = [] }
      return state.waiting
    }
    for completion in waiting { completion(mood == .takes ? .appended(sequence: 1) : .refused) }
  }

  func add(
    lane: String, id: String, _ bytes: [UInt8], completion: @escaping AppendCompletion
  ) {
    guard let job = try? ClusterCodec.pushJob(bytes) else {
      return completion(.unknown("not a push job"))
    }
    let result: AppendResult? = state.withLock { state in
      state.offered.append(job)
      switch state.mood {
      case .takes:
        state.kept.append(job)
        return .appended(sequence: UInt64(state.kept.count))
      case .refuses: return .refused
      case .leaderless: return .unknown("no stream takes the message")
      case .silent:
        state.waiting.append(completion)
        return nil
      }
    }
    if let result { completion(result) }
  }

  func consume(
    lane: String, inFlight: Int, handler: @escaping WorkHandler
  ) async throws -> any BusSubscription { throw BusError.closed }

  func depth(lane: String) async throws -> Int { offered.count }
}

extension WorkerBench {
  func token(_ text: String) -> PushToken {
    PushToken(
      provider: .apns, environment: "sandbox", topic: "org.example.voip", token: text,
      fingerprint: "fp\(text)")
  }

  func register(_ user: UserKey, _ device: DeviceID, _ text: String) async throws -> Reply {
    try await edge.ask(
      .register(RegistrationRequest(voipToken: token(text), capabilities: .cancel)), from: 50, user,
      device, to: user)
  }

  func owner(_ text: String, app: String = "app") async throws -> TokenOwner? {
    let key = Subjects.tokenKey("fp\(text)", app: app)
    guard let value = try await tokens.get(key)?.value else { return nil }
    return try ClusterCodec.tokenOwner(value)
  }

  func inspect(_ user: UserKey) async -> UserInspection? {
    let shard = ShardHash.shard(of: user, count: Self.shards)
    return await worker.inspect(user: user, shard: shard)
  }

  func voipToken(_ user: UserKey, _ device: DeviceID) async -> String? {
    await inspect(user)?.devices.first { $0.device == device }?.registration?.request.voipToken?
      .token
  }
}

extension WorkerBench {
  /// A gateway says that the token of `b1`, a device of shard 0's user, is gone. Returns the gateway.
  @inline(never)
  func reportGone(
    of call: CallID, from source: CommandSource = .gateways, hasWebhooks: Bool = false
  ) throws -> FakeEdge {
    let gateway = try FakeEdge(1234, bus, shards: Self.shards, clock: clock, announces: false)
    let report = PushReport(
      call: call, device: "b1", purpose: .ring, fingerprint: "fpt1", outcome: .tokenGone(at: nil),
      at: clock.now() + .seconds(60), hasWebhooks: hasWebhooks)
    let command = Command(
      session: SessionRef(edge: 1234, number: 8), request: 8, user: user(0), device: "b1",
      callee: user(0), body: .pushReport(report))
    bus.publish(
      source.subject(of: 0, subjects),
      ClusterCodec.encode(CommandBatch(peer: 1234, commands: [command])))
    return gateway
  }
}
