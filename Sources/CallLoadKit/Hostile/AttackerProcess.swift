import FoundationEssentials
import Synchronization

/// The attackers beside one run of the load: runs their process, and samples each node's peak memory.
final class AttackerProcess: Sendable {
  private struct State {
    var endedAfterSeconds: Double?
    var peaks: [String: NodePeak] = [:]
  }

  let round: HostilePlan.Round
  private let orders: AttackOrders
  private let folder: TemporaryFolder
  private let processes: ProcessSet
  private let state = Mutex(State())

  /// The attackers' process may take this much longer than its orders: to start, until each has acted, and to end.
  static let patience: Duration = .seconds(40)

  init(
    _ round: HostilePlan.Round, orders: AttackOrders, folder: TemporaryFolder, processes: ProcessSet
  ) {
    self.round = round
    self.orders = orders
    self.folder = folder
    self.processes = processes
  }

  /// From the beginning of the load until the end of the attackers' process; nil without attackers.
  var endedAfterSeconds: Double? { state.withLock { $0.endedAfterSeconds } }
  var peaks: [NodePeak] { state.withLock { Array($0.peaks.values) } }
  func accounts() -> [Attack: AttackAccount] { orders.accounts() }

  /// - Parameter isWanted: polled; the attackers are ended once it returns false.
  /// - Throws: ``SetupError`` where the attackers could not start, or failed.
  func run(beside servers: Servers, isWanted: @Sendable () -> Bool) async throws {
    guard !round.attacks.isEmpty else { return }
    let began = ContinuousClock.now
    guard let program = Executables.own else {
      throw SetupError("/proc/self/exe cannot be read, so callload cannot start its attackers")
    }
    let json = String(decoding: try JSONEncoder().encode(orders), as: UTF8.self)
    try folder.write(json, to: "attackers.json")
    let child = try await processes.start(
      ChildCommand(
        name: "attackers", executable: program,
        arguments: ["--attack-orders", folder.file("attackers.json")],
        logPath: folder.file("attackers.log")))
    child.expectEnd()
    let deadline = began + .seconds(orders.seconds) + Self.patience
    while child.poll() == nil, ContinuousClock.now < deadline, isWanted() {
      samplePeaks(servers)
      await Pause.milliseconds(50)
    }
    let end = await child.killed()
    state.withLock { $0.endedAfterSeconds = began.duration(to: .now) / .seconds(1) }
    guard end == .exited(0) || !isWanted() else {
      throw SetupError("the attackers failed; their last words:\n\(child.logTail())")
    }
  }

  /// Samples each node's peak memory until now, which the kernel counts.
  func samplePeaks(_ servers: Servers) {
    for (role, name, sample) in servers.sample() where sample.residentPeakBytes > 0 {
      let peak = NodePeak(role: role, name: name, bytes: sample.residentPeakBytes)
      state.withLock { state in
        state.peaks.merge([name: peak]) { $0.bytes > $1.bytes ? $0 : $1 }
      }
    }
  }
}

package struct NodePeak: Sendable, Equatable {
  package var role: ProcessRole
  package var name: String
  package var bytes: UInt64
  package init(role: ProcessRole, name: String, bytes: UInt64) {
    self.role = role
    self.name = name
    self.bytes = bytes
  }
}
