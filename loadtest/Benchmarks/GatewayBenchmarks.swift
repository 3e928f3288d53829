import CallCore
import CallProcesses
import CallTestKit
import Foundation
import Glibc

/// The pushes that one gateway process sends: jobs in JetStream's work queue → `callnode push` → the
/// simulated APNs, which lives in this process, as do those who answer the gateway's reports.
///
/// Everything shares the machine, so a rate is what the whole of it can do; the gateway's own CPU time
/// for each push says what it could do with the processors to itself.
enum GatewayBenchmarks {
  private static let rates = [200, 1000, 3000]
  private static let backlogJobs = 60_000
  private static let backlogName = "push gateway, a full queue"
  private static func name(_ rate: Int) -> String { "push gateway, \(rate) jobs/s" }

  static func run(_ measure: Measure) async throws {
    let rates = rates.filter { measure.wants(name($0)) }
    let isFull = measure.wants(backlogName)
    guard isFull || !rates.isEmpty else { return }
    guard let ground = try await GatewayGround.start() else {
      return print("push gateway: skipped, since there is no callnode beside this program")
    }
    do {
      try await backlog(ground, jobs: isFull ? backlogJobs : 2000, isSilent: !isFull)
      for rate in rates { try await steady(ground, perSecond: rate, seconds: 5) }
      let report = ground.apns.report
      print(
        "push gateway: \(report.connectionsTotal) connections to APNs, at most "
          + "\(report.streamsInFlightMax) streams on one, \(report.violationsTotal) violations")
    } catch {
      await ground.stop()
      throw error
    }
    await ground.stop()
  }

  private struct Stuck: Error, CustomStringConvertible { var description: String }

  /// The gateway finds a queue full of jobs. Measured from the first tenth to the last: connections
  /// are open, and the queue is never empty.
  private static func backlog(
    _ ground: GatewayGround, jobs: Int, isSilent: Bool
  ) async throws {
    let now = Timestamp(microseconds: Int64(Date().timeIntervalSince1970 * 1_000_000))
    let kept = await withTaskGroup(of: Int.self) { group in
      for first in 0..<64 {
        group.addTask {
          var kept = 0
          for number in stride(from: first, to: jobs, by: 64) {
            if await ground.add(number, now: now) { kept += 1 }
          }
          return kept
        }
      }
      return await group.reduce(0, +)
    }
    guard kept == jobs else { throw Stuck(description: "the queue kept \(kept) of \(jobs) jobs") }
    try ground.startGateway()
    try await wait(ground, for: jobs / 10)
    let (before, from) = (Usage(ground), ground.arrivals.count)
    try await wait(ground, for: jobs * 9 / 10)
    let (after, to) = (Usage(ground), ground.arrivals.count)
    try await wait(ground, for: jobs)
    if isSilent { return }
    print("\(backlogName) of \(jobs) jobs: \(after.since(before, pushes: to - from))")
    for (thread, microseconds) in after.threads(since: before, pushes: to - from) {
      print("  thread \(thread): \(microseconds) µs")
    }
  }

  private static func wait(_ ground: GatewayGround, for count: Int) async throws {
    var last = (count: ground.arrivals.count, at: ContinuousClock.now)
    while ground.arrivals.count < count {
      guard ground.isGatewayAlive else { throw Stuck(description: "the gateway ended") }
      if ground.arrivals.count > last.count { last = (ground.arrivals.count, .now) }
      guard .now < last.at + .seconds(20) else {
        throw Stuck(description: "\(last.count) of \(count) pushes came, and then none for 20 s")
      }
      try await Task.sleep(for: .milliseconds(1))
    }
  }

  /// Jobs come at a rate, each when it is due. The latency is from a job's adding to its push's arrival.
  private static func steady(_ ground: GatewayGround, perSecond rate: Int, seconds: Int)
    async throws
  {
    let first = 1_000_000 * rate
    let total = rate * seconds
    let from = ground.arrivals.count
    let (before, start) = (Usage(ground), ContinuousClock.now)
    await withDiscardingTaskGroup { group in
      for index in 0..<total {
        let due = start + .microseconds(index * 1_000_000 / rate)
        if due > .now { try? await Task.sleep(until: due) }
        ground.arrivals.willAdd(first + index)
        let now = Timestamp(microseconds: Int64(Date().timeIntervalSince1970 * 1_000_000))
        group.addTask { _ = await ground.add(first + index, now: now) }
      }
    }
    try await wait(ground, for: from + total)
    let after = Usage(ground)
    let latencies = ground.arrivals.takeLatencies()
    func percentile(_ share: Double) -> Int64 {
      latencies[min(latencies.count - 1, Int(Double(latencies.count) * share))]
    }
    print(
      "\(name(rate)): \(after.since(before, pushes: total)); job → APNs µs: "
        + "p50 \(percentile(0.5)), p90 \(percentile(0.9)), p99 \(percentile(0.99)), "
        + "max \(latencies.last ?? 0)")
  }

  /// CPU time of all that takes part, and when.
  private struct Usage {
    private var at = ContinuousClock.now
    private var gateway: Int
    private var nats: Int
    private var own: Int
    private var byThread: [String: Int]

    init(_ ground: GatewayGround) {
      gateway = Self.microseconds("/proc/\(ground.gatewayID)/stat")
      nats = Self.microseconds("/proc/\(ground.nats.processID ?? 0)/stat")
      own = Self.microseconds("/proc/self/stat")
      byThread = [:]
      let folder = "/proc/\(ground.gatewayID)/task"
      for task in (try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? [] {
        let name =
          (try? String(contentsOfFile: "\(folder)/\(task)/comm", encoding: .utf8)) ?? "?"
        byThread["\(name.trimmingCharacters(in: .whitespacesAndNewlines)) \(task)"] =
          Self.microseconds("\(folder)/\(task)/stat")
      }
    }

    /// User and system time; the kernel counts in hundredths of a second.
    private static func microseconds(_ path: String) -> Int {
      guard let text = try? String(contentsOfFile: path, encoding: .utf8),
        let end = text.lastIndex(of: ")")
      else { return 0 }
      let fields = text[end...].split(separator: " ")
      guard fields.count > 13, let user = Int(fields[12]), let system = Int(fields[13]) else {
        return 0
      }
      return (user + system) * 1_000_000 / sysconf(Int32(_SC_CLK_TCK))
    }

    func since(_ before: Usage, pushes: Int) -> String {
      let elapsed = (at - before.at).components
      let seconds = Double(elapsed.seconds) + Double(elapsed.attoseconds) / 1e18
      return "\(Int(Double(pushes) / seconds)) pushes/s, CPU µs a push: gateway "
        + "\((gateway - before.gateway) / pushes), nats-server \((nats - before.nats) / pushes), "
        + "this process \((own - before.own) / pushes)"
    }

    func threads(since before: Usage, pushes: Int) -> [(String, Int)] {
      byThread.map { ($0.key, ($0.value - before.byThread[$0.key, default: 0]) / pushes) }
        .filter { $0.1 > 0 }.sorted { $0.1 > $1.1 }
    }
  }
}
