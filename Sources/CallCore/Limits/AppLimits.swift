/// The limits on the use of a cluster by one app, one of its users and one of its sessions. The file of keys sets them
/// for each app; docs/configuration.md has the same table.
public enum AppLimit: String, Sendable, CaseIterable {
  // Limits of a user.
  case devicesOfUser
  case callsPerUser
  case signalBytesPerUser
  // Limits of a session.
  case commandsPerSession
  case bytesPerSession
  // Limits of the app.
  case callsPerSecond
  case liveCalls
  case registrationsPerSecond
  case pushesPerSecond
  case serverRequestsPerSecond

  public struct Facts: Sendable {
    public var standard: Int
    public var range: ClosedRange<Int>
    /// For a rate: how many seconds' worth may come at once. 0: it is no rate.
    public var seconds = 0
    /// The thing that is counted, for sentences: `calls a second of one user`.
    public var what: String
  }

  public var facts: Facts {
    switch self {
    case .devicesOfUser:
      // 0: the cluster's setting, which also holds where it is smaller.
      Facts(standard: 0, range: 0...100, what: "registered devices of one user")
    case .callsPerUser:
      Facts(
        standard: 2, range: 1...100_000, seconds: 10,
        what: "calls and transfers a second from one user")
    case .signalBytesPerUser:
      Facts(
        standard: 16_384, range: 8192...1_000_000_000, seconds: 16,
        what: "bytes of descriptions and candidates a second from one user")
    case .commandsPerSession:
      // 0: the edge's setting.
      Facts(standard: 0, range: 0...100_000, seconds: 3, what: "commands a second on one session")
    case .bytesPerSession:
      Facts(
        standard: 65_536, range: 8192...1_000_000_000, seconds: 16,
        what: "bytes a second on one session")
    case .callsPerSecond:
      Facts(
        standard: 1000, range: 1...1_000_000, seconds: 2,
        what: "calls and transfers a second of one app")
    case .liveCalls:
      Facts(standard: 50_000, range: 1...10_000_000, what: "live calls of one app")
    case .registrationsPerSecond:
      Facts(
        standard: 500, range: 1...1_000_000, seconds: 10, what: "registrations a second of one app")
    case .pushesPerSecond:
      Facts(standard: 1000, range: 1...1_000_000, seconds: 2, what: "pushes a second of one app")
    case .serverRequestsPerSecond:
      Facts(
        standard: 100, range: 10...100_000, seconds: 2,
        what: "requests a second of the app's server")
    }
  }
}

/// The treatment of a further call to a user in an answered call. Raw values are those of the file of keys.
public enum SecondCalls: String, Sendable, CaseIterable {
  /// It rings, and the app does call waiting.
  case allow
  /// It ends as busy.
  case busy
}

/// How long a call rings that goes on to other users. Raw values are those of the file of keys.
public enum ForwardedRing: String, Sendable, CaseIterable {
  /// As long as its caller has chosen, for all of them together; where the caller has chosen nothing, as `anew`.
  case caller
  /// At least the default time at each of them.
  case anew
}

/// The terms on which an app may use a cluster, from the file of keys.
public struct AppTerms: Sendable, Equatable {
  public var limits = AppLimits()
  /// Bundle ids and Firebase projects for whose tokens its devices may register; nil: any. An empty one
  /// stands for tokens of FCM that name no project.
  public var pushTopics: [String]?
  /// The treatment of a further call to a user in an answered call; nil: as the cluster's `busyWhileInCall` says.
  public var secondCalls: SecondCalls?
  public var forwardedRing = ForwardedRing.caller
  /// Whether a user's devices may see which calls the user is in.
  public var ongoingCalls: Bool
  /// The information that it wants about its calls.
  public var subscriptions: Subscriptions

  public init(
    limits: AppLimits = AppLimits(), pushTopics: [String]? = nil, secondCalls: SecondCalls? = nil,
    ongoingCalls: Bool = false, subscriptions: Subscriptions = []
  ) {
    self.subscriptions = subscriptions
    self.ongoingCalls = ongoingCalls
    self.limits = limits
    self.pushTopics = pushTopics
    self.secondCalls = secondCalls
  }

  /// Whether its devices may have a token. The topic of Web Push is the browser's push service, for all
  /// apps the same.
  public func admits(_ token: PushToken) -> Bool {
    guard let pushTopics else { return true }
    switch token.provider {
    case .none, .webPush: return true
    case .apns, .fcm: break
    }
    let isVoIP = token.provider == .apns && token.topic.hasSuffix(".voip")
    let topic = isVoIP ? String(token.topic.dropLast(5)) : token.topic
    return pushTopics.contains { $0.hasBytes(of: topic) }
  }
}

/// The limits of one app.
public struct AppLimits: Sendable, Equatable {
  private var values: [AppLimit: Int] = [:]

  /// The standard ones.
  public init() {}

  public subscript(limit: AppLimit) -> Int {
    get { values[limit] ?? limit.facts.standard }
    set { values[limit] = newValue }
  }

  /// How many may come at once, for a rate.
  public func burst(_ limit: AppLimit) -> Int { self[limit] * limit.facts.seconds }

  /// The refusal of something beyond its limit. It names the limit, and says when to try again.
  public func refusal(
    _ limit: AppLimit, _ code: CallError.Code = .rateLimited, retryAfterMilliseconds: UInt32
  ) -> CallError {
    let facts = limit.facts
    let atOnce = facts.seconds > 0 ? ", \(burst(limit)) at once" : ""
    return CallError(
      code, "\(limit.rawValue): at most \(self[limit]) \(facts.what)\(atOnce).",
      retryAfterMilliseconds: retryAfterMilliseconds)
  }
}
