import CallAuth
import Glibc
import NIOCore
import NIOPosix

/// The attackers' process: plays its orders on one thread at a low priority, writes what came of it, ends.
enum AttackerProgram {
  /// - Returns: the exit status.
  static func run(ordersPath: String) async -> Int32 {
    do {
      // What it takes from the processors should be the edges' work for it, not its own.
      _ = setpriority(__priority_which_t(PRIO_PROCESS.rawValue), 0, 10)
      let orders = try AttackOrders.read(ordersPath)
      let keys = try AppKeys.load(path: orders.keysPath)
      let connections = orders.attacks.reduce(0) { $0 + $1.facts.connections }
      _ = FileLimit.raise(toward: FileLimit.needed(devices: connections))
      try orders.write(try await play(orders, keys))
      return 0
    } catch {
      Output.write("attackers: \(error)\n", to: STDERR_FILENO)
      return 2
    }
  }

  private static func play(
    _ orders: AttackOrders, _ keys: AppKeys
  ) async throws -> [Attack: AttackAccount] {
    let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
    let eventLoop = group.next()
    let contexts = try await eventLoop.submit {
      let contexts = try orders.attacks.map {
        try AttackContext($0, orders: orders, keys: keys, eventLoop: eventLoop)
      }
      for context in contexts { context.begin() }
      return NIOLoopBound(contexts, eventLoop: eventLoop)
    }.get()
    try await Task.sleep(for: .seconds(orders.seconds))
    // The sockets end with the process.
    return try await eventLoop.submit {
      Dictionary(uniqueKeysWithValues: contexts.value.map { ($0.attack, $0.stop()) })
    }.get()
  }
}
