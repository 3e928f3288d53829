import CallBus
import CallCore
import CallPush
import CallTelemetry
import CallTestKit
import Glibc
import Logging
import NIOCore
import NIOPosix

/// The cost of a push on its way to APNs: through one sender's pool, over TLS and loopback, to the simulated server in
/// the same process.
///
/// Figures are per push. "process" is the CPU time of all of it, the server included; "loop" is the
/// CPU time of the one event loop that the pool lives on.
enum APNsBenchmarks {
  private static let bundle = "com.example.calls"

  static func run(_ measure: Measure) async throws {
    guard measure.wants("push apns") else { return }
    let serverGroup = MultiThreadedEventLoopGroup(numberOfThreads: 1)
    let senderGroup = MultiThreadedEventLoopGroup(numberOfThreads: 1)
    var options = APNsSimulatorOptions(bundles: [bundle])
    options.strangers = .accept
    options.eventLoopGroup = serverGroup
    let apns = try await APNsSimulator.start(options)
    let clock = ClusterClock(
      wallMicroseconds: Int64(clockNanoseconds(CLOCK_REALTIME) / 1000))
    var configuration = APNsConfiguration(
      name: "benchmark",
      credentials: try APNsCredentials(
        team: apns.key.team, keyID: apns.key.id, pem: apns.key.privateKeyPEM),
      environment: .production, topics: [bundle])
    configuration.host = "127.0.0.1"
    configuration.port = apns.port
    configuration.extraTrustRootsPEM = [apns.authorityPEM]
    let sender = try APNsSender(
      [configuration], group: senderGroup, clock: clock,
      logger: Logger(label: "benchmark") { _ in SwiftLogNoOpLogHandler() })
    let bench = Bench(
      sender: sender, clock: clock, loop: senderGroup.next(), server: serverGroup.next())

    _ = try await bench.burst(pushes: 2000, atOnce: 100)  // Warms up.
    for atOnce in [1, 32, 256, 800] {
      let runs = atOnce == 1 ? 2000 : 20_000
      try await bench.report("push apns, \(atOnce) at once", pushes: runs, atOnce: atOnce)
    }
    await sender.close()
    let report = apns.report
    print(
      "push apns: \(report.connectionsTotal) connections, at most \(report.streamsInFlightMax) "
        + "streams on one, \(report.violationsTotal) violations of the contract")
    await apns.stop()
    try await senderGroup.shutdownGracefully()
    try await serverGroup.shutdownGracefully()
  }

  private struct Figures {
    var seconds = 0.0
    var processMicroseconds = 0.0
    var loopMicroseconds = 0.0
    var serverMicroseconds = 0.0
    var latency = DurationHistogram()
    var failed = 0
  }

  private struct Bench: Sendable {
    let sender: APNsSender
    let clock: ClusterClock
    let loop: any EventLoop
    let server: any EventLoop

    /// Keeps so many pushes under way until all are sent.
    func burst(pushes: Int, atOnce: Int) async throws -> Figures {
      var figures = Figures()
      let latency = figures.latency
      let loopBefore = try await cpu(of: loop)
      let serverBefore = try await cpu(of: server)
      let processBefore = clockNanoseconds(CLOCK_PROCESS_CPUTIME_ID)
      let start = ContinuousClock.now
      figures.failed = await withTaskGroup(of: Int.self) { group in
        for worker in 0..<atOnce {
          group.addTask {
            var failed = 0
            for index in stride(from: worker, to: pushes, by: atOnce) {
              let began = clock.now()
              if await sender.send(message(index, now: began)) != .accepted { failed += 1 }
              latency.record(microseconds: (clock.now() - began).microseconds)
            }
            return failed
          }
        }
        return await group.reduce(0, +)
      }
      let elapsed = (ContinuousClock.now - start).components
      figures.seconds = Double(elapsed.seconds) + Double(elapsed.attoseconds) / 1e18
      let count = Double(pushes) * 1000
      figures.processMicroseconds =
        Double(clockNanoseconds(CLOCK_PROCESS_CPUTIME_ID) - processBefore) / count
      figures.loopMicroseconds = Double(try await cpu(of: loop) - loopBefore) / count
      figures.serverMicroseconds = Double(try await cpu(of: server) - serverBefore) / count
      return figures
    }

    func report(_ name: String, pushes: Int, atOnce: Int) async throws {
      var all: [Figures] = []
      for _ in 0..<3 { all.append(try await burst(pushes: pushes, atOnce: atOnce)) }
      guard let best = all.min(by: { $0.seconds < $1.seconds }) else { return }
      let rate = Int(Double(pushes) / best.seconds)
      func micro(_ value: Double) -> String { String(Int(value.rounded())) }
      print(
        "\(name): \(rate)/s, CPU µs: process \(micro(best.processMicroseconds)), "
          + "loop \(micro(best.loopMicroseconds)), server \(micro(best.serverMicroseconds)); "
          + "latency µs: p50 \(best.latency.percentile(0.5)), p99 \(best.latency.percentile(0.99))"
          + (best.failed > 0 ? "; \(best.failed) FAILED" : ""))
    }

    private func message(_ index: Int, now: Timestamp) -> PushMessage {
      let digits = String(index, radix: 16)
      let zeros = { (width: Int) in String(repeating: "0", count: width - digits.count) }
      return PushMessage(
        id: "00000000-0000-4000-8000-" + zeros(12) + digits,
        token: PushToken(
          provider: .apns, environment: "production", topic: bundle, token: zeros(64) + digits),
        purpose: .ring, payload: payload, kind: .voip, deadline: now + .seconds(30))
    }

    private func cpu(of loop: any EventLoop) async throws -> Int {
      try await loop.submit { clockNanoseconds(CLOCK_THREAD_CPUTIME_ID) }.get()
    }
  }

  /// As long as ours are.
  private static let payload = Array(
    #"{"aps":{},"callmesh":{"call":"0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0","\#(String(repeating: "x", count: 400))":1}}"#
      .utf8)

  private static func clockNanoseconds(_ id: clockid_t) -> Int {
    var time = timespec()
    clock_gettime(id, &time)
    return Int(time.tv_sec) * 1_000_000_000 + Int(time.tv_nsec)
  }
}
