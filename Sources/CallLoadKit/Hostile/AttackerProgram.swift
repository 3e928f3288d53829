import CallAuth
import FoundationEssentials
import Glibc
import NIOCore
import NIOPosix

/// The attackers' process: plays its orders on one thread at a low priority, and writes accounts.
enum AttackerProgram {
  static func run(ordersPath: String) async -> Never {
    do {
      // The load should feel the edges' work for the attackers, not the attackers' own.
      _ = setpriority(__priority_which_t(PRIO_PROCESS.rawValue), 0, 10)
      let orders = try AttackOrders(path: ordersPath)
      let keys = try AppKeys.load(path: orders.keysPath)
      let connections = orders.attacks.reduce(0) { $0 + $1.facts.connections }
      _ = FileLimit.raise(toward: FileLimit.needed(devices: connections))
      let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
      let contexts = try await begin(orders, keys, on: group.next())
      try await Task.sleep(for: .seconds(orders.seconds))
      try await waitUntilAllActed(contexts, on: group.next())
      let accounts = try await group.next().submit {
        Dictionary(uniqueKeysWithValues: contexts.value.map { ($0.attack, $0.stop()) })
      }.get()
      try orders.write(accounts)
      // At once, while all objects of the connections exist.
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

  /// At their low priority, attackers may get no processor for seconds on a busy machine. An attack that has not begun
  /// says nothing about the cluster.
  private static func waitUntilAllActed(
    _ contexts: NIOLoopBound<[AttackContext]>, on eventLoop: any EventLoop
  ) async throws {
    let deadline = ContinuousClock.now + AttackerProcess.patience / 2
    while ContinuousClock.now < deadline {
      let acted = eventLoop.submit { contexts.value.allSatisfy { $0.account.attempts > 0 } }
      if try await acted.get() { return }
      try await Task.sleep(for: .milliseconds(50))
    }
  }
}

/// The orders of the attackers' process, in a JSON file.
struct AttackOrders: Codable, Sendable {
  var attacks: [Attack]
  var edges: [String]
  var keysPath: String
  /// The app of the normal load, to which most attackers belong as well.
  var app: String
  var otherApp: String
  var seconds: Double
  var seed: UInt64
  /// Where it writes an ``AttackAccount`` for each attack, by name.
  var accountPath: String
}

package struct AttackAccount: Codable, Sendable, Equatable {
  /// Attempts in the attack's unit: requests, frames, calls.
  package var attempts = 0
  package var connections = 0
  package var connectionsFailed = 0
  package var connectionsClosed = 0
  /// Without the bytes of sessions.
  package var bytesSent = 0
  /// By HTTP status, error code, or `taken`. Unread answers are not counted.
  package var answers: [String: Int] = [:]
  package init() {}

  mutating func count(answer: String) { answers[answer, default: 0] += 1 }

  enum CodingKeys: String, CodingKey {
    case attempts, connections, answers
    case connectionsFailed = "connections_failed"
    case connectionsClosed = "connections_closed"
    case bytesSent = "bytes_sent"
  }
}

extension AttackOrders {
  init(path: String) throws {
    self = try JSONDecoder().decode(Self.self, from: Data(contentsOf: URL(filePath: path)))
  }

  func write(_ accounts: [Attack: AttackAccount]) throws {
    try JSONEncoder().encode(accounts).write(to: URL(filePath: accountPath))
  }

  /// - Returns: an empty dictionary where the attackers' process wrote no account.
  func accounts() -> [Attack: AttackAccount] {
    let data = FileManager.default.contents(atPath: accountPath) ?? Data()
    return (try? JSONDecoder().decode([Attack: AttackAccount].self, from: data)) ?? [:]
  }
}
