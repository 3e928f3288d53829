public import CallCore
internal import Crypto

/// One of Apple's two environments. Each key, connection and device token belongs to one.
public enum APNsEnvironment: String, Sendable, CaseIterable {
  case production, sandbox

  /// Apple's host of the environment.
  public var host: String {
    switch self {
    case .production: "api.push.apple.com"
    case .sandbox: "api.sandbox.push.apple.com"
    }
  }
}

/// A pool of connections to APNs, for one team, key and environment.
public struct APNsConfiguration: Sendable {
  /// The name in logs, metrics and `callctl`.
  public var name: String
  /// The team's key. Its description does not contain the key.
  public var credentials: APNsCredentials
  public var environment: APNsEnvironment
  /// The bundle ids of the apps that the pool serves. The suffix `.voip` is removed.
  public var topics: [String]
  /// Where to connect instead of Apple's host for the environment.
  public var host: String?
  /// 443, or 2197 for firewalls that separate pushes from other traffic.
  public var port = 443
  /// The name in the certificate; nil: the host.
  public var tlsServerName: String?
  /// PEM certificates that are trusted in addition to the system's.
  public var extraTrustRootsPEM: [String] = []
  public var limits = APNsLimits()

  public init(
    name: String, credentials: APNsCredentials, environment: APNsEnvironment, topics: [String]
  ) {
    self.name = name
    self.credentials = credentials
    self.environment = environment
    self.topics = topics
  }

  /// The bundle id of a topic, with or without `.voip`.
  public static func bundle(of topic: String) -> String {
    topic.hasSuffix(".voip") ? String(topic.dropLast(5)) : topic
  }

  /// - Throws: the first error of topics, port and limits.
  package func validate() throws(APNsConfigurationError) {
    guard !topics.isEmpty else { throw .noTopics(name) }
    for topic in topics {
      let bundle = Self.bundle(of: topic)
      guard bundle.isGraphicASCII, (1...255).contains(bundle.utf8.count) else {
        throw .badTopic(name, topic)
      }
    }
    guard (1...65_535).contains(port) else { throw .badPort(name, port) }
    try limits.validate(name)
  }
}

/// The limits of a pool, each with its policy.
public struct APNsLimits: Sendable, Equatable {
  /// Connections that are kept open. Bursts are distributed over them.
  public var connections = 2
  /// Pushes under way on one connection; fewer if APNs allows fewer. Policy: further ones wait.
  public var inFlightPerConnection = 500
  /// Pushes that wait for a connection or a retry. Policy: a further one fails at once.
  public var queued = 10_000
  /// The time for name lookup, TCP and TLS; then the same time for the first SETTINGS frame of APNs.
  public var connectTimeout = Span.seconds(5)
  /// The time that an attempt waits for its answer, before the push is retried on another connection.
  public var attemptTimeout = Span.seconds(5)
  /// The longest time for which a push is tried, even if its deadline is later.
  public var noticeTimeout = Span.seconds(30)
  /// If requests are open and nothing is read for this time, the connection is pinged. It gets no more pushes until it
  /// answers.
  public var quietBeforePing = Span.seconds(2)
  /// A connection that does not answer a ping within this time is dead.
  public var pingTimeout = Span.seconds(2)
  /// The interval of pings on a connection without traffic. Apple recommends an hour.
  public var idleBeforePing = Span.seconds(3600)
  /// The time in which a draining connection may still answer, and the time that `close()` waits for all pushes under
  /// way.
  public var drainGrace = Span.seconds(5)
  /// The wait before the second attempt to connect. It doubles with each failure up to the maximum, less a random part
  /// of up to a half, so that nodes do not reconnect all at once.
  public var reconnectDelay = Span.milliseconds(100)
  public var reconnectDelayMax = Span.seconds(5)
  /// The time that APNs may keep a VoIP push for an unreachable device, at most until the deadline. Apple: "0, or only
  /// a few seconds". 0: APNs tries once and keeps nothing.
  public var voipKeep = Span.seconds(5)

  public init() {}

  func validate(_ name: String) throws(APNsConfigurationError) {
    // Times in microseconds.
    let second: Int64 = 1_000_000
    let rules: [(key: String, value: Int64, range: ClosedRange<Int64>)] = [
      ("connections", Int64(connections), 1...64),
      ("inFlightPerConnection", Int64(inFlightPerConnection), 1...10_000),
      ("queued", Int64(queued), 1...1_000_000),
      ("connectTimeout", connectTimeout.microseconds, 1...60 * second),
      ("attemptTimeout", attemptTimeout.microseconds, 1...60 * second),
      ("noticeTimeout", noticeTimeout.microseconds, 1...86_400 * second),
      ("quietBeforePing", quietBeforePing.microseconds, 1...60 * second),
      ("pingTimeout", pingTimeout.microseconds, 1...60 * second),
      ("idleBeforePing", idleBeforePing.microseconds, 1...86_400 * second),
      ("drainGrace", drainGrace.microseconds, 1...60 * second),
      ("reconnectDelay", reconnectDelay.microseconds, 1...60 * second),
      ("reconnectDelayMax", reconnectDelayMax.microseconds, 1...600 * second),
      ("voipKeep", voipKeep.microseconds, 0...60 * second),
    ]
    for rule in rules where !rule.range.contains(rule.value) { throw .outOfRange(name, rule.key) }
  }
}

/// Why a configuration cannot be used. Shows no key.
public enum APNsConfigurationError: Error, Equatable, CustomStringConvertible {
  case badTeam
  case badKeyID
  /// Not a PEM file with a PKCS #8 private key on the curve P-256.
  case badKey
  case noTopics(String)
  case badTopic(String, String)
  case badPort(String, Int)
  case outOfRange(String, String)
  case badTrustRoot(String)
  case badServerName(String)
  /// Two pools serve one topic in one environment.
  case topicTwice(String)
  case nameTwice(String)
  case unknownName(String)
  /// Environment, host and port need a new pool.
  case needsRestart(String)

  public var description: String {
    switch self {
    case .badTeam: "A team id is 10 letters and digits."
    case .badKeyID: "A key id is 10 letters and digits."
    case .badKey: "The key is no PEM file with a PKCS #8 private key on P-256, as Apple's .p8 is."
    case .noTopics(let name): "APNs sender \(name) has no topics."
    case .badTopic(let name, let topic): "APNs sender \(name): \(topic) is no bundle id."
    case .badPort(let name, let port): "APNs sender \(name): \(port) is no port."
    case .outOfRange(let name, let key): "APNs sender \(name): \(key) is out of range."
    case .badTrustRoot(let name): "APNs sender \(name): a trust root is no certificate in PEM."
    case .badServerName(let name): "APNs sender \(name): the server's name cannot stand in TLS."
    case .topicTwice(let topic): "Two APNs senders serve \(topic) in one environment."
    case .nameTwice(let name): "Two APNs senders have the name \(name)."
    case .unknownName(let name): "There is no APNs sender \(name)."
    case .needsRestart(let name):
      "APNs sender \(name): environment, host and port cannot change while it runs."
    }
  }
}

/// A team's signing key for provider tokens. Its description does not contain the key.
public struct APNsCredentials: Sendable, CustomStringConvertible, CustomDebugStringConvertible,
  CustomReflectable
{
  public let team: String
  public let keyID: String
  private let key: P256.Signing.PrivateKey

  /// - Parameter pem: the text of the `.p8` file from Apple's developer account.
  /// - Throws: `badTeam`, `badKeyID` or `badKey`.
  public init(team: String, keyID: String, pem: String) throws(APNsConfigurationError) {
    guard Self.isIdentifier(team) else { throw .badTeam }
    guard Self.isIdentifier(keyID) else { throw .badKeyID }
    // The parser's error may quote the key.
    guard let key = try? P256.Signing.PrivateKey(pemRepresentation: pem) else { throw .badKey }
    self.team = team
    self.keyID = keyID
    self.key = key
  }

  private static func isIdentifier(_ text: String) -> Bool {
    text.utf8.count == 10 && text.isAlphanumericASCII()
  }

  public var description: String { "APNs key \(keyID) of team \(team)" }
  public var debugDescription: String { description }
  public var customMirror: Mirror { Mirror(self, children: ["team": team, "keyID": keyID]) }

  /// A provider token: a JWT with ES256.
  ///
  /// - Parameter issuedAt: seconds since 1970. APNs accepts the token for an hour from then.
  /// - Throws: the error of signing.
  package func token(issuedAt: Int64) throws -> String {
    try SignedJWT.text(
      header: #"{"alg":"ES256","kid":"\#(keyID)"}"#,
      claims: #"{"iss":"\#(team)","iat":\#(issuedAt)}"#, es256: key)
  }
}
