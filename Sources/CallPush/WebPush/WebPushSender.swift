public import CallCore
internal import CallWire
internal import Crypto
internal import Synchronization

/// The configuration of a Web Push sender (RFC 8030, 8291, 8292).
public struct WebPushConfiguration: Sendable, Equatable {
  /// The name in logs and metrics.
  public var name: String
  /// The VAPID key: a P-256 private key in PEM. Subscriptions are bound to its public half, the `applicationServerKey`,
  /// and end with another key.
  public var keyFile: String
  /// The contact for push services: `mailto:…` or `https://…`.
  public var subject: String
  /// Push services in addition to the standard ones: `host` or `*.host` (any name below it), with `:port` if it is not
  /// 443.
  public var furtherHosts: [String] = []
  /// PEM certificates that are trusted instead of the system's.
  public var caFile: String?
  /// For tests: allows endpoints on the loopback and in private networks, if `furtherHosts` lists them.
  public var allowsPrivateAddresses = false
  /// Fewer requests at a time than for FCM, since the limit applies to each push service.
  public var limits = SenderLimits(inFlightMax: 64)

  /// The push services of Chrome, Edge and others; Firefox; older Edge and Windows; Safari.
  public static let standardHosts = [
    "fcm.googleapis.com", "*.push.services.mozilla.com", "*.notify.windows.com",
    "web.push.apple.com", "*.push.apple.com",
  ]

  public init(name: String, keyFile: String, subject: String) {
    self.name = name
    self.keyFile = keyFile
    self.subject = subject
  }
}

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
    let sealed = Result { () throws(PushRefusal) in try seal(message) }
    let key = (try? sealed.get())?.endpoint.origin ?? ""
    return await attempts.run(message, key: key, sealed) { sealed, context in
      await self.attempt(message, sealed.endpoint, sealed.body, context)
    }.outcome
  }

  /// Encrypts once for all attempts, so that a retry is the same message.
  private func seal(
    _ message: PushMessage
  ) throws(PushRefusal) -> (endpoint: PushEndpoint, body: [UInt8]) {
    guard message.token.provider == .webPush,
      let subscription = PushSubscription(message.token.token)
    else { throw PushRefusal(reason: "this is no Web Push subscription") }
    let endpoint = subscription.endpoint
    // Browsers name a subscription that they have ended so (RFC 2606).
    if endpoint.host.hasSuffix(".invalid") {
      throw PushRefusal(reason: "the browser has ended the subscription", isGone: true)
    }
    if let refusal = state.withLock({ $0.policy }).refusal(endpoint) {
      throw PushRefusal(reason: refusal)
    }
    do {
      return (endpoint, try WebPushEncryption.seal(message.payload, for: subscription))
    } catch is WebPushEncryption.TooLong {
      let most = WebPushEncryption.textBytesMax
      throw PushRefusal(reason: "the payload is longer than \(most) bytes")
    } catch {
      throw PushRefusal(reason: "the subscription's key cannot be used")
    }
  }

  private func attempt(
    _ message: PushMessage, _ endpoint: PushEndpoint, _ body: [UInt8], _ context: AttemptContext
  ) async -> AttemptVerdict {
    let authorization = state.withLock {
      $0.cache.authorization(origin: endpoint.origin, now: context.now, chance: context.chance)
    }
    guard let authorization else { return .done(.rejected(reason: "the VAPID key does not sign")) }
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
