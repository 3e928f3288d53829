public import CallCore

/// A simulator's report on its senders (R36).
public struct APNsReport: Sendable, Equatable {
  public struct Connection: Sendable, Equatable {
    /// Counted from 1, in the order of acceptance.
    public var number: Int
    public var openedAt: Timestamp
    public var closedAt: Timestamp?
    public var streams = 0
    public var streamsInFlightMax = 0
    public var accepted = 0
    public var pings = 0
    /// Streams that the client reset with RST_STREAM.
    public var abandoned = 0
    /// The first use of each provider token, in order; at most 1000 are kept.
    public var providerTokenUses: [Timestamp] = []
    public var violations = 0

    public init(number: Int, openedAt: Timestamp) {
      self.number = number
      self.openedAt = openedAt
    }

    /// The shortest time between the first uses of two provider tokens that follow each other.
    public var providerTokenSpacing: Span? {
      zip(providerTokenUses, providerTokenUses.dropFirst()).map { $1 - $0 }.min()
    }
  }

  /// The first `connectionsKept` connections; all are counted.
  public var connections: [Connection] = []
  public var connectionsTotal = 0
  public var connectionsOpenMax = 0
  public var streams = 0
  /// On one connection.
  public var streamsInFlightMax = 0
  public var pings = 0
  public var abandoned = 0
  /// Streams that were opened after our GOAWAY, which the client may not have read yet.
  public var streamsBehindGoAway = 0
  /// TLS handshakes that failed.
  public var handshakesFailed = 0
  /// Answers with status 200.
  public var accepted = 0
  /// Answers by status and reason: `200`, `410 Unregistered`.
  public var responses: [String: Int] = [:]
  /// Answers BadDeviceToken for tokens that were accepted before.
  public var goodTokensRefused = 0
  /// Requests that a script left without an answer, refused or reset.
  public var unanswered = 0
  /// How many pushes were accepted for each token, in lower case.
  public var pushesByToken: [String: Int] = [:]
  /// Accepted pushes for tokens beyond the limit of `pushesByToken`.
  public var pushesOfOtherTokens = 0
  /// Provider tokens, over all connections.
  public var providerTokens = 0
  /// Undelivered pushes: dropped, replaced by a later one, expired.
  public var dropped = 0
  public var replaced = 0
  public var expired = 0
  public var violations: [APNsViolation: Int] = [:]
  /// The first violations, in words.
  public var remarks: [String] = []

  public init() {}

  /// 0 is the pass mark.
  public var violationsTotal: Int { violations.values.reduce(0, +) }

  /// The shortest time between two provider tokens on one connection.
  public var providerTokenSpacing: Span? { connections.compactMap(\.providerTokenSpacing).min() }

  /// The most pushes that one token got.
  public var pushesByTokenMax: Int { pushesByToken.values.max() ?? 0 }
}

extension APNsReport {
  static let connectionsKept = 1000
  static let tokensKept = 100_000
  static let remarksKept = 50

  mutating func note(_ violation: APNsViolation, connection: Int, about: String = "") {
    violations[violation, default: 0] += 1
    if connections.indices.contains(connection - 1) { connections[connection - 1].violations += 1 }
    if remarks.count < Self.remarksKept {
      remarks.append(
        "connection \(connection): \(violation.rawValue)" + (about.isEmpty ? "" : ": \(about)"))
    }
  }

  mutating func noteAccepted(_ token: String, connection: Int) {
    accepted += 1
    if connections.indices.contains(connection - 1) { connections[connection - 1].accepted += 1 }
    if pushesByToken[token] != nil || pushesByToken.count < Self.tokensKept {
      pushesByToken[token, default: 0] += 1
    } else {
      pushesOfOtherTokens += 1
    }
  }

  /// Adds the growth of a connection's counts.
  mutating func note(
    _ counts: APNsTransport.Counts, since before: APNsTransport.Counts, connection: Int
  ) {
    streams += counts.streams - before.streams
    pings += counts.pings - before.pings
    abandoned += counts.abandoned - before.abandoned
    streamsBehindGoAway += counts.streamsBehindGoAway - before.streamsBehindGoAway
    streamsInFlightMax = max(streamsInFlightMax, counts.streamsInFlightMax)
    guard connections.indices.contains(connection - 1) else { return }
    connections[connection - 1].streams = counts.streams
    connections[connection - 1].pings = counts.pings
    connections[connection - 1].abandoned = counts.abandoned
    connections[connection - 1].streamsInFlightMax = counts.streamsInFlightMax
  }
}
