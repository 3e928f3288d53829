import FoundationEssentials

/// What the attackers' process is told, as a JSON file.
struct AttackOrders: Codable, Sendable {
  /// Played at the same time.
  var attacks: [Attack]
  /// `ws://host:port`.
  var edges: [String]
  var keysPath: String
  /// The app of the normal load, to which most attackers belong, too.
  var app: String
  /// The app of `app-flood`.
  var otherApp: String
  var seconds: Double
  var seed: UInt64
  /// Where it writes an ``AttackAccount`` for each attack, by name.
  var accountPath: String
}

package struct AttackAccount: Codable, Sendable, Equatable {
  /// Of the attack's unit: requests, frames, calls.
  package var attempts = 0
  package var connections = 0
  /// TCP connections that were not.
  package var connectionsFailed = 0
  package var connectionsClosed = 0
  /// Without those of sessions.
  package var bytesSent = 0
  /// By HTTP status, error code, or `taken`. What is not read is not counted.
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
  static func read(_ path: String) throws -> AttackOrders {
    try JSONDecoder().decode(Self.self, from: Data(contentsOf: URL(filePath: path)))
  }

  func encoded() throws -> String {
    String(decoding: try JSONEncoder().encode(self), as: UTF8.self)
  }

  func write(_ accounts: [Attack: AttackAccount]) throws {
    try JSONEncoder().encode(accounts).write(to: URL(filePath: accountPath))
  }

  /// - Returns: nothing where the attackers' process left no account.
  func accounts() -> [Attack: AttackAccount] {
    let data = FileManager.default.contents(atPath: accountPath) ?? Data()
    return (try? JSONDecoder().decode([Attack: AttackAccount].self, from: data)) ?? [:]
  }
}
