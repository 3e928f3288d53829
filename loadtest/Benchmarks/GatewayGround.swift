import CallBus
import CallCore
import CallProcesses
import CallTestKit
import CallWire
import Foundation
import NATSBus
import NIOCore
import NIOPosix
import Synchronization

/// The surroundings that a push gateway needs: a nats-server with the work queue, an APNs, and somebody
/// who answers its reports as shards do. The gateway itself is a process of its own, as in production.
final class GatewayGround: Sendable {
  private static let bundle = "org.example.calls"
  private static let cluster = "benchmark"
  private static let subjects = Subjects(cluster: cluster, shardCount: 64)

  let nats: NATSServerProcess
  let apns: APNsSimulator
  let arrivals: Arrivals
  let queue: any WorkQueue
  private let bus: NATSBus
  private let folder: TemporaryFolder
  private let callnode: String
  private let gateway = Mutex<ChildProcess?>(nil)
  private let apnsGroup: MultiThreadedEventLoopGroup

  /// nil: there is no callnode beside this program.
  static func start() async throws -> GatewayGround? {
    guard let callnode = Executables.beside("callnode") else { return nil }
    let nats = try await NATSServerProcess.start()
    do {
      return try await GatewayGround(nats, callnode)
    } catch {
      nats.stop()
      throw error
    }
  }

  private init(_ nats: NATSServerProcess, _ callnode: String) async throws {
    self.nats = nats
    self.callnode = callnode
    folder = try TemporaryFolder("callmesh-benchmark")
    let arrivals = Arrivals()
    self.arrivals = arrivals
    apnsGroup = MultiThreadedEventLoopGroup(numberOfThreads: 1)
    var options = APNsSimulatorOptions(bundles: [Self.bundle])
    options.strangers = .accept
    options.eventLoopGroup = apnsGroup
    options.onPush = { arrivals.take($0) }
    apns = try await APNsSimulator.start(options)
    bus = try await NATSBus.connect(
      url: nats.url, name: "benchmark", options: NATSOptions(subjects: Self.subjects))
    queue = try await bus.openWorkQueue(WorkQueueOptions())
    try await agree()
    try answerReports()
    try folder.write(apns.key.privateKeyPEM, to: "key.p8")
    try folder.write(apns.authorityPEM, to: "authority.pem")
    try folder.write(
      """
      {"apns": [{
        "name": "phones", "team": "\(apns.key.team)", "key": "\(apns.key.id)",
        "keyFile": "key.p8", "environment": "production", "topics": ["\(Self.bundle)"],
        "endpoint": "127.0.0.1:\(apns.port)", "caFile": "authority.pem"
      }]}
      """, to: "providers.json")
  }

  /// Settles the cluster's configuration, as a first coordinator does.
  private func agree() async throws {
    let record = ClusterRecord(cluster: Self.cluster, shardCount: 64)
    let bucket = try await bus.openBucket("\(Self.cluster)-config", BucketOptions())
    _ = try await bus.openBucket(Self.subjects.leaseBucket, BucketOptions())
    let result = await withCheckedContinuation { continuation in
      bucket.put("cluster", ClusterCodec.encode(record), expecting: 0) {
        continuation.resume(returning: $0)
      }
    }
    guard case .appended = result else { throw BusError.failed("\(result)") }
  }

  /// Shards that have every report at once.
  private func answerReports() throws {
    for shard in 0..<64 {
      _ = try bus.subscribe(Self.subjects.reports(shard: shard)) { [bus] message in
        guard let batch = try? ClusterCodec.commandBatch(message.bytes), batch.peer != 0 else {
          return
        }
        let items = batch.commands.map {
          EdgeItem(session: $0.session.number, body: .reply(request: $0.request, .done))
        }
        bus.publish(
          Self.subjects.replies(to: batch.peer), ClusterCodec.encode(EdgeBatch(items: items)))
      }
    }
  }

  // MARK: The gateway

  func startGateway(_ options: [String] = []) throws {
    var command = ChildCommand(
      name: "gateway", executable: callnode,
      arguments: [
        "push", "--nats-url", nats.url, "--cluster", Self.cluster, "--push-providers",
        folder.file("providers.json"), "--log-level", "warning",
      ] + options)
    command.standardOutput = STDERR_FILENO
    let process = try ChildLauncher.startNow(command)
    gateway.withLock { $0 = process }
  }

  var gatewayID: Int32 { gateway.withLock { $0?.processID } ?? 0 }
  var isGatewayAlive: Bool { gateway.withLock { $0.map { $0.poll() == nil } } ?? false }

  func stopGateway() {
    gateway.withLock { $0.take() }?.stopNow(timeout: .seconds(60))
  }

  func stop() async {
    stopGateway()
    await bus.close()
    await apns.stop()
    try? await apnsGroup.shutdownGracefully()
    nats.stop()
    folder.remove()
  }

  // MARK: Jobs

  /// - Parameter number: makes the push, its call and its user.
  static func job(_ number: Int, now: Timestamp) -> PushJob {
    let digits = String(number, radix: 16)
    let token = String(repeating: "0", count: 64 - digits.count) + digits
    return PushJob(
      user: UserKey(app: "demo", user: "user\(number % 5000)"), device: "phone",
      call: CallID(high: 0x0f1e_2d3c_4b5a_4978, low: 1 << 63 | UInt64(number)), purpose: .ring,
      token: PushToken(
        provider: .apns, environment: "production", topic: bundle + ".voip", token: token,
        fingerprint: String(token.suffix(32))),
      dialect: .callmesh, caller: Party(user: "alice", device: "a1", deviceName: "Alice's phone"),
      video: true, headers: [], placedAt: now, ringDeadline: now + .seconds(120),
      // As fresh as in a cluster, however long the queue: else it would be asked about first.
      decidedAt: now + .seconds(120),
      deadline: now + .seconds(120))
  }

  /// Returns whether the queue keeps it.
  func add(_ number: Int, now: Timestamp) async -> Bool {
    let job = Self.job(number, now: now)
    let result = await withCheckedContinuation { continuation in
      queue.add(lane: "apns-production", id: job.id, ClusterCodec.encode(job)) {
        continuation.resume(returning: $0)
      }
    }
    if case .appended = result { return true }
    return false
  }
}

/// When pushes reached APNs, by the number in their token.
final class Arrivals: Sendable {
  private struct State {
    var count = 0
    var addedAt: [Int: Int64] = [:]
    var latencies: [Int64] = []
  }
  private let state = Mutex(State())

  static func nowMicroseconds() -> Int64 { Int64(DispatchTime.now().uptimeNanoseconds / 1000) }

  var count: Int { state.withLock { $0.count } }

  func willAdd(_ number: Int) {
    let now = Self.nowMicroseconds()
    state.withLock { $0.addedAt[number] = now }
  }

  func take(_ push: APNsPush) {
    let now = Self.nowMicroseconds()
    let number = Int(push.token.suffix(15), radix: 16) ?? -1
    state.withLock { state in
      state.count += 1
      if let added = state.addedAt.removeValue(forKey: number) {
        state.latencies.append(now - added)
      }
    }
  }

  /// The latencies of pushes announced with `willAdd`, in microseconds, least first. Forgets them.
  func takeLatencies() -> [Int64] {
    state.withLock { state in
      defer { state.latencies = [] }
      return state.latencies.sorted()
    }
  }
}
