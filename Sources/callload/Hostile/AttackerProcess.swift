import Synchronization

/// The attackers beside one run of the load: runs their process, and notes each node's peak of memory.
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

  /// What an attackers' process may take to start and to end, beyond its orders.
  private static let patience: Duration = .seconds(20)

  init(
    _ round: HostilePlan.Round, orders: AttackOrders, folder: TemporaryFolder, processes: ProcessSet
  ) {
    self.round = round
    self.orders = orders
    self.folder = folder
    self.processes = processes
  }

  /// From the beginning of the load until the attackers were gone; nothing where there were none.
  var endedAfterSeconds: Double? { state.withLock { $0.endedAfterSeconds } }
  var peaks: [NodePeak] { state.withLock { Array($0.peaks.values) } }
  func accounts() -> [Attack: AttackAccount] { orders.accounts() }

  /// - Parameter isWanted: asked often; once it says no, the attackers are ended.
  func run(beside servers: Servers, isWanted: @Sendable () -> Bool) async throws {
    guard !round.attacks.isEmpty else { return }
    let began = ContinuousClock.now
    guard let program = Executables.own else {
      throw SetupError("/proc/self/exe cannot be read, so callload cannot start its attackers")
    }
    try folder.write(try orders.encoded(), to: "attackers.json")
    let child = try await processes.start(
      ChildCommand(
        name: "attackers", executable: program,
        arguments: ["--attack-orders", folder.file("attackers.json")],
        logPath: folder.file("attackers.log")))
    child.expectEnd()
    let deadline = began + .seconds(orders.seconds) + Self.patience
    while child.poll() == nil, ContinuousClock.now < deadline, isWanted() {
      look(at: servers)
      await Pause.milliseconds(50)
    }
    let end = await child.killed()
    state.withLock { $0.endedAfterSeconds = began.duration(to: .now) / .seconds(1) }
    guard end == .exited(0) || !isWanted() else {
      throw SetupError("the attackers failed; their last words:\n\(child.logTail())")
    }
  }

  /// Notes each node's greatest memory until now, as the kernel keeps it.
  func look(at servers: Servers) {
    let found = servers.sample()
    state.withLock { state in
      for (role, name, sample) in found where sample.residentPeakBytes > 0 {
        let before = state.peaks[name]?.bytes ?? 0
        state.peaks[name] = NodePeak(
          role: role, name: name, bytes: max(before, sample.residentPeakBytes))
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
