public import CallCore
internal import CallWire
internal import Crypto
internal import Synchronization

/// Sends to browsers' push services.
///
/// Each push service has its own limit of requests, so that one that does not answer delays no other.
public final class WebPushSender: PushSender {
  private let attempts: PushAttempts
  private let state: Mutex<State>

  private struct State: Sendable {
    var cache: VAPIDCache
    var policy: PushEndpointPolicy
    var publicKey: String
  }

  public var statistics: SenderStatistics { attempts.statistics }

  /// The VAPID public key, which apps need to subscribe: the `applicationServerKey`, base64url.
  public var publicKey: String { state.withLock { $0.publicKey } }

  /// Reads the key file. Connects later.
  /// - Throws: what is wrong with the configuration.
  public init(
    _ configuration: WebPushConfiguration, environment: SenderEnvironment
  ) throws(SenderConfigurationError) {
    state = Mutex(try Self.read(configuration))
    attempts = PushAttempts(
      provider: .webPush, name: configuration.name, caFile: configuration.caFile,
      limits: configuration.limits, environment: environment)
  }

  /// Replaces key, subject and list of hosts, from the next push on. The limits stay as they are.
  /// - Throws: what is wrong with the configuration, or that `caFile` changed; nothing is replaced then.
  public func update(_ configuration: WebPushConfiguration) throws(SenderConfigurationError) {
    try attempts.checkUnchanged(caFile: configuration.caFile)
    let new = try Self.read(configuration)
    state.withLock { $0 = new }
  }

  private static func read(
    _ configuration: WebPushConfiguration
  ) throws(SenderConfigurationError) -> State {
    let key = try VAPIDKey(
      pem: try SenderFiles.read(configuration.keyFile, sender: configuration.name),
      file: configuration.keyFile, subject: configuration.subject, sender: configuration.name)
    var rules: [PushHostRule] = []
    for text in WebPushConfiguration.standardHosts + configuration.furtherHosts {
      guard let rule = PushHostRule(text) else {
        throw SenderConfigurationError(
          sender: configuration.name, place: "furtherHosts",
          what: "\"\(text)\" is no host", remedy: "write push.example.com or *.push.example.com")
      }
      rules.append(rule)
    }
    return State(
      cache: VAPIDCache(key: key),
      policy: PushEndpointPolicy(
        rules: rules, allowsPrivate: configuration.allowsPrivateAddresses),
      publicKey: key.publicKey)
  }

  public func send(_ message: PushMessage) async -> PushOutcome {
    let prepared = prepare(message)
    let key = if case .ready(let endpoint, _) = prepared { endpoint.origin } else { "" }
    return await attempts.run(message, key: key) { context in
      switch prepared {
      case .refused(let reason): return .done(.rejected(reason: reason))
      case .ready(let endpoint, let body):
        return await self.attempt(message, endpoint, body, context)
      }
    }.outcome
  }

  private enum Prepared {
    case ready(PushEndpoint, body: [UInt8])
    case refused(reason: String)
  }

  /// Encrypts once for all attempts, so that a retry is the same message.
  private func prepare(_ message: PushMessage) -> Prepared {
    guard message.token.provider == .webPush,
      let subscription = PushSubscription(message.token.token)
    else { return .refused(reason: "this is no Web Push subscription") }
    if let refusal = state.withLock({ $0.policy }).refusal(subscription.endpoint) {
      return .refused(reason: refusal)
    }
    do {
      return .ready(
        subscription.endpoint,
        body: try WebPushEncryption.seal(message.payload, for: subscription))
    } catch is WebPushEncryption.TooLong {
      return .refused(
        reason: "the payload is longer than \(WebPushEncryption.textBytesMax) bytes")
    } catch {
      return .refused(reason: "the subscription's key cannot be used")
    }
  }

  private func attempt(
    _ message: PushMessage, _ endpoint: PushEndpoint, _ body: [UInt8], _ context: AttemptContext
  ) async -> AttemptVerdict {
    let authorization = state.withLock {
      $0.cache.authorization(
        origin: endpoint.origin, now: context.now, chance: context.chance)
    }
    guard let authorization else {
      return .done(.rejected(reason: "the VAPID key does not sign"))
    }
    let verdict = await attempts.post(
      endpoint.url, key: endpoint.origin,
      headers: WebPushHeaders.make(message, authorization: authorization, now: context.now),
      body: body, context: context, judge: WebPushVerdict.judge)
    if case .renew = verdict {
      state.withLock { $0.cache.refused(authorization, origin: endpoint.origin) }
    }
    return verdict
  }

  public func close() async { await attempts.close() }
}

/// The headers of a push (RFC 8030, 5).
enum WebPushHeaders {
  static func make(
    _ message: PushMessage, authorization: String, now: Timestamp
  ) -> [(String, String)] {
    var headers = [
      ("authorization", authorization), ("ttl", "\(message.secondsToLive(at: now))"),
      ("urgency", urgency(message.purpose)), ("content-encoding", "aes128gcm"),
      ("content-type", "application/octet-stream"),
    ]
    if !message.collapseKey.isEmpty { headers.append(("topic", topic(message.collapseKey))) }
    return headers
  }

  /// "high: incoming phone call or time-sensitive alert", "normal: chat message" (RFC 8030, 5.3).
  /// A push that stops the ringing is as urgent as one that starts it.
  private static func urgency(_ purpose: PushPurpose) -> String {
    purpose == .missedNotice ? "normal" : "high"
  }

  /// At most 32 characters of base64url (RFC 8030, 5.4). Any other key is hashed: 24 bytes of a hash are 32
  /// characters.
  static func topic(_ collapseKey: String) -> String {
    let fits =
      (1...32).contains(collapseKey.utf8.count) && collapseKey.isAlphanumericASCII(or: "-_")
    if fits { return collapseKey }
    return Base64URL.text(Array(SHA256.hash(data: Array(collapseKey.utf8)).prefix(24)))
  }
}
