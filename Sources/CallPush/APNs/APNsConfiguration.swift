public import CallCore

/// Which of Apple's two worlds a key, a connection and a device token belong to.
public enum APNsEnvironment: String, Sendable, CaseIterable {
  case production, sandbox

  /// The host that Apple names for it.
  public var host: String {
    switch self {
    case .production: "api.push.apple.com"
    case .sandbox: "api.sandbox.push.apple.com"
    }
  }
}

/// One pool of connections to APNs: a team, its key, an environment.
public struct APNsConfiguration: Sendable {
  /// For the operator: in logs, metrics and `callctl`.
  public var name: String
  /// The key and whose it is. What shows it shows no key.
  public var credentials: APNsCredentials
  public var environment: APNsEnvironment
  /// The apps' bundle ids that this pool serves. A `.voip` at the end is taken off.
  public var topics: [String]
  /// Where to connect instead of Apple's host for the environment.
  public var host: String?
  /// 443, or 2197 where a firewall wants to tell pushes from other traffic.
  public var port: Int
  /// The name that the certificate must have; nil: the host.
  public var tlsServerName: String?
  /// Certificates in PEM that are trusted beside the system's.
  public var extraTrustRootsPEM: [String]
  public var limits: APNsLimits

  public init(
    name: String, credentials: APNsCredentials, environment: APNsEnvironment, topics: [String],
    host: String? = nil, port: Int = 443, tlsServerName: String? = nil,
    extraTrustRootsPEM: [String] = [], limits: APNsLimits = APNsLimits()
  ) {
    self.name = name
    self.credentials = credentials
    self.environment = environment
    self.topics = topics
    self.host = host
    self.port = port
    self.tlsServerName = tlsServerName
    self.extraTrustRootsPEM = extraTrustRootsPEM
    self.limits = limits
  }

  /// The bundle id that a topic of either form stands for.
  public static func bundle(of topic: String) -> String {
    topic.hasSuffix(".voip") ? String(topic.dropLast(5)) : topic
  }

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

/// Sizes and times of a pool. Every one of them is a bound, and the policy stands beside it.
public struct APNsLimits: Sendable, Equatable {
  /// Connections that are kept open. Bursts are spread over them.
  public var connections = 2
  /// Pushes under way on one connection; fewer where APNs allows fewer. More wait.
  public var inFlightPerConnection = 500
  /// Pushes that wait for a connection or a retry. At the limit a new one fails at once.
  public var queued = 10_000
  /// Name lookup, TCP and TLS together; and then once more until APNs' first SETTINGS frame.
  public var connectTimeout = Span.seconds(5)
  /// How long one attempt waits for its answer before the push is tried once more elsewhere.
  public var attemptTimeout = Span.seconds(5)
  /// How long a push that has a longer deadline is tried for.
  public var patience = Span.seconds(30)
  /// With requests open and nothing read for so long, the connection is pinged, and gets no more
  /// pushes until it answers.
  public var quietBeforePing = Span.seconds(2)
  /// A ping without an answer for so long: the connection is dead.
  public var pingTimeout = Span.seconds(2)
  /// A connection without traffic is pinged this often. Apple's advice: after an hour.
  public var idleBeforePing = Span.seconds(3600)
  /// How long pushes under way on a connection that takes no more may still be answered, and how
  /// long `close()` waits for all of them.
  public var drainGrace = Span.seconds(5)
  /// Before the second attempt to connect; doubles with each failure up to the maximum, and is cut
  /// by up to a half by chance, so that many nodes do not come back at once.
  public var reconnectDelay = Span.milliseconds(100)
  public var reconnectDelayMax = Span.seconds(5)
  /// How long APNs may keep a VoIP push for a device that it does not reach at once; never longer
  /// than its deadline. Apple: "0, or only a few seconds". 0: one try, nothing is kept.
  public var voipKeep = Span.seconds(5)

  public init() {}

  func validate(_ name: String) throws(APNsConfigurationError) {
    let counts: [(String, Int, ClosedRange<Int>)] = [
      ("connections", connections, 1...64),
      ("inFlightPerConnection", inFlightPerConnection, 1...10_000),
      ("queued", queued, 1...1_000_000),
    ]
    for (key, value, range) in counts where !range.contains(value) {
      throw .outOfRange(name, key)
    }
    let spans: [(String, Span, Span)] = [
      ("connectTimeout", connectTimeout, .seconds(60)),
      ("attemptTimeout", attemptTimeout, .seconds(60)),
      ("patience", patience, .seconds(86_400)),
      ("quietBeforePing", quietBeforePing, .seconds(60)),
      ("pingTimeout", pingTimeout, .seconds(60)),
      ("idleBeforePing", idleBeforePing, .seconds(86_400)),
      ("drainGrace", drainGrace, .seconds(60)),
      ("reconnectDelay", reconnectDelay, .seconds(60)),
      ("reconnectDelayMax", reconnectDelayMax, .seconds(600)),
    ]
    for (key, value, most) in spans where value.microseconds < 1 || value > most {
      throw .outOfRange(name, key)
    }
    guard voipKeep.microseconds >= 0, voipKeep <= .seconds(60) else {
      throw .outOfRange(name, "voipKeep")
    }
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
  /// What only a new pool can have: another environment, host or port.
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
