internal import CallBus
public import CallCore
internal import Synchronization

/// Sends to one Firebase project over FCM's HTTP v1 API.
///
/// Retries as FCM's contract allows, within the message's deadline: see `FCMVerdict`.
public final class FCMSender: PushSender {
  private let access: AccessBox
  private let attempts: PushAttempts
  private let tokens: AccessTokens

  /// The current credentials.
  private final class AccessBox: Sendable {
    let value: Mutex<FCMAccess>
    init(_ access: FCMAccess) { value = Mutex(access) }
  }

  public var statistics: SenderStatistics { attempts.statistics }

  /// Reads the service account's file. Connects later.
  /// - Throws: what is wrong with the configuration.
  public init(
    _ configuration: FCMConfiguration, environment: SenderEnvironment
  ) throws(SenderConfigurationError) {
    let box = AccessBox(try FCMAccess(configuration))
    let attempts = PushAttempts(
      provider: .fcm, name: configuration.name, caFile: configuration.caFile,
      limits: configuration.limits, environment: environment)
    let clock = environment.clock
    access = box
    self.attempts = attempts
    tokens = AccessTokens(clock: clock, chance: environment.chance, pause: attempts.pause) {
      let access = box.value.withLock { $0 }
      return await Self.exchange(access, attempts: attempts, now: clock.now())
    }
  }

  /// Replaces key, project and endpoint, from the next push on. The limits stay as they are.
  /// - Throws: what is wrong with the configuration, or that `caFile` changed; nothing is replaced then.
  public func update(_ configuration: FCMConfiguration) throws(SenderConfigurationError) {
    try attempts.checkUnchanged(caFile: configuration.caFile)
    let new = try FCMAccess(configuration)
    access.value.withLock { $0 = new }
    tokens.credentialsChanged()
  }

  public func send(_ message: PushMessage) async -> PushOutcome { await deliver(message).outcome }

  /// As `send`; also returns FCM's name of the message.
  package func deliver(_ message: PushMessage) async -> PushDelivery {
    let data = Result { () throws(PushRefusal) in try FCMMessage.data(of: message) }
    return await attempts.run(message, data) { data, context in
      await self.attempt(message, data: data, context)
    }
  }

  private func attempt(
    _ message: PushMessage, data: [UInt8], _ context: AttemptContext
  ) async -> AttemptVerdict {
    let token: String
    switch await tokens.token(until: message.deadline, unless: message.cancellation) {
    case .token(let text): token = text
    // Includes the pause after a failed exchange.
    case .none(let reason):
      return .done(message.isCancelled ? .expired : .failed(reason: reason))
    }
    let now = attempts.clock.now()
    guard now < message.deadline else { return .done(.failed(reason: "no access token in time")) }
    // Its call may have ended while it waited for the token.
    guard !message.isCancelled else { return .done(.expired) }
    let verdict = await attempts.post(
      access.value.withLock { $0.sendURL }, key: "",
      headers: [
        ("authorization", "Bearer \(token)"), ("content-type", "application/json; charset=utf-8"),
        ("accept", "application/json"),
      ],
      body: FCMMessage.body(message, data: data, now: now), context: context,
      judge: FCMVerdict.judge)
    if case .renew = verdict { tokens.refused(token) }
    return verdict
  }

  private static func exchange(
    _ access: FCMAccess, attempts: PushAttempts, now: Timestamp
  ) async -> AccessTokenMachine.Exchanged {
    guard
      let assertion = try? access.account.assertion(nowSeconds: now.microseconds / 1_000_000)
    else { return .failed(reason: "access token: the key does not sign") }
    let reply = await attempts.http.post(
      access.tokenURL,
      headers: [
        ("content-type", "application/x-www-form-urlencoded"), ("accept", "application/json"),
      ],
      body: TokenExchange.body(assertion: assertion), within: attempts.limits.attemptTimeout)
    return TokenExchange.judge(reply)
  }

  public func close() async {
    await attempts.close()
    await tokens.close()
  }
}
