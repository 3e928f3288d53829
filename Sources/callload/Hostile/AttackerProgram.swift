import CallAuth
import Glibc
import NIOCore
import NIOPosix

/// The attackers' process: plays its orders on one thread at a low priority, and writes what came of it.
enum AttackerProgram {
  static func run(ordersPath: String) async -> Never {
    do {
      // What it takes from the processors should be the edges' work for it, not its own.
      _ = setpriority(__priority_which_t(PRIO_PROCESS.rawValue), 0, 10)
      let orders = try AttackOrders.read(ordersPath)
      let keys = try AppKeys.load(path: orders.keysPath)
      let connections = orders.attacks.reduce(0) { $0 + $1.facts.connections }
      _ = FileLimit.raise(toward: FileLimit.needed(devices: connections))
      let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
      let contexts = try await begin(orders, keys, on: group.next())
      try await Task.sleep(for: .seconds(orders.seconds))
      let accounts = try await group.next().submit {
        Dictionary(uniqueKeysWithValues: contexts.value.map { ($0.attack, $0.stop()) })
      }.get()
      try orders.write(accounts)
      // At once, while whatever belongs to the connections is still there.
      withExtendedLifetime(contexts) { _exit(0) }
    } catch {
      Output.write("attackers: \(error)\n", to: STDERR_FILENO)
      _exit(2)
    }
  }

  private static func begin(
    _ orders: AttackOrders, _ keys: AppKeys, on eventLoop: any EventLoop
  ) async throws -> NIOLoopBound<[AttackContext]> {
    try await eventLoop.submit {
      let contexts = try orders.attacks.map {
        try AttackContext($0, orders: orders, keys: keys, eventLoop: eventLoop)
      }
      for context in contexts { context.begin() }
      return NIOLoopBound(contexts, eventLoop: eventLoop)
    }.get()
  }
}
