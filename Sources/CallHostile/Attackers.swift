package import CallAuth
import Glibc
import NIOCore
import NIOPosix

/// The cluster under attack, and what attackers know of it.
package struct AttackTarget: Sendable {
  package var edges: [String]
  /// Sign the attackers' tokens.
  package var keys: AppKeys
  /// The app of the normal load, to which most attackers belong as well.
  package var app: String
  package var otherApp: String

  package init(edges: [String], keys: AppKeys, app: String, otherApp: String) {
    self.edges = edges
    self.keys = keys
    self.app = app
    self.otherApp = otherApp
  }
}

/// Plays attacks on one thread at a low priority: the load should feel the edges' work for the attackers, not the
/// attackers' own.
package struct Attackers: Sendable {
  private let group: MultiThreadedEventLoopGroup
  private let contexts: NIOLoopBound<[AttackContext]>

  /// Begins the attacks.
  package init(_ attacks: [Attack], on target: AttackTarget, seed: UInt64) async throws {
    let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
    let eventLoop = group.next()
    self.group = group
    contexts = try await eventLoop.submit {
      // On Linux this is the priority of the calling thread alone.
      _ = setpriority(__priority_which_t(PRIO_PROCESS.rawValue), 0, 10)
      let contexts = attacks.map {
        AttackContext($0, target: target, seed: seed, eventLoop: eventLoop)
      }
      for context in contexts { context.begin() }
      return NIOLoopBound(contexts, eventLoop: eventLoop)
    }.get()
  }

  /// Whether each attack has made an attempt.
  package var haveAllActed: Bool {
    get async throws {
      try await group.next().submit { [contexts] in
        contexts.value.allSatisfy { $0.account.attempts > 0 }
      }.get()
    }
  }

  /// Ends the attacks and all their connections.
  package func stop() async throws -> [Attack: AttackAccount] {
    let eventLoop = group.next()
    let accounts = try await eventLoop.submit { [contexts] in
      Dictionary(uniqueKeysWithValues: contexts.value.map { ($0.attack, $0.stop()) })
    }.get()
    // Connections that have just begun resolve their edge's address on another thread, and return to the loop.
    try await eventLoop.scheduleTask(in: .milliseconds(200)) {}.futureResult.get()
    try await group.shutdownGracefully()
    return accounts
  }
}

package struct AttackAccount: Encodable, Sendable, Equatable {
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
