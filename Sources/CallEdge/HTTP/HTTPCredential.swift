internal import CallAuth
internal import CallCore
internal import CallTelemetry
internal import CallWire
internal import Logging
internal import NIOHTTP1
internal import Synchronization

/// A valid token and its claims.
struct Login {
  var claims: DeviceClaims
  var token: String
}

/// The credential that authorizes a request.
enum HTTPCredential {
  /// A user's token: `Authorization: Bearer …`.
  case bearer(Login)
  /// A push's capability, for one call and one device: `Authorization: CallmeshPush …`.
  case push(PushCapability, text: String)
  /// The token of an app's server.
  case server(ServerClaims, token: String)

  /// nil for an app's server, which is no user.
  var user: UserKey? {
    switch self {
    case .bearer(let login): UserKey(app: login.claims.app, user: login.claims.user)
    case .push(let capability, _): UserKey(app: capability.app, user: capability.user)
    case .server: nil
    }
  }

  /// The device that the credential names.
  var claimedDevice: String? {
    switch self {
    case .bearer(let login): login.claims.device
    case .push(let capability, _): capability.device
    case .server: nil
    }
  }

  /// As the command carries it, for the coordinator to verify.
  var credential: Credential {
    switch self {
    case .bearer(let login): .token(login.token)
    case .push(_, let text): .pushCapability(text)
    case .server(_, let token): .token(token)
    }
  }

  /// The key of the rate of requests that counts; nil: that of its app's server.
  fileprivate var rateKey: RateKey? {
    user.map { RateKey(user: $0, device: DeviceID(claimedDevice ?? "")) }
  }

  /// The device that sends the request: the credential's, or the one that the request names.
  /// - Throws: `notAccepted` where the two differ, `invalidDevice` where there is none or it is not valid.
  func device(named: String?) throws(CallError) -> DeviceID {
    switch self {
    case .bearer(let login):
      return try DeviceID.resolve(claimed: login.claims.device, named: named ?? "").get()
    case .push(let capability, _):
      guard named?.hasBytes(of: capability.device) ?? true else {
        throw CallError(.notAccepted)
      }
      return DeviceID(capability.device)
    case .server: throw CallError(AuthFailure.servers)
    }
  }

  /// Checks that it is good for a route.
  /// - Throws: `notAccepted`, whichever part of a capability does not match.
  fileprivate func check(_ route: HTTPRoute) throws(CallError) {
    guard case .push(let capability, _) = self else { return }
    guard let address = route.callAddress, address.call.bytes == capability.call
    else { throw CallError(.notAccepted) }
  }
}

extension EdgeShared {
  /// The credential of a request, verified, and good for the route.
  ///
  /// The body of a decline or busy may hold a push's capability, for apps that cannot set headers. The URL may
  /// not, since proxies and servers log URLs.
  /// - Throws: `notAccepted`, `expired`, `tokenTooLong`, `revoked`; `tryAgain` while there are no keys to verify
  ///   a capability.
  func credential(
    _ headers: HTTPHeaders, _ route: HTTPRoute, body: [UInt8], now: Timestamp
  ) throws(CallError) -> HTTPCredential {
    let credential: HTTPCredential
    if let (scheme, text) = try Self.authorization(headers) {
      switch scheme {
      case "bearer":
        if case .app = route { return .server(try verifyServer(text, now: now), token: text) }
        credential = .bearer(try login(by: text, now: now))
      case "callmeshpush": credential = .push(try capability(text, now: now), text: text)
      default: throw CallError(.notAccepted)
      }
    } else {
      guard let text = Self.capability(inBodyOf: route, body) else {
        throw CallError(.notAccepted)
      }
      credential = .push(try capability(text, now: now), text: text)
    }
    try credential.check(route)
    return credential
  }

  /// Takes a request from the rate of the credential's holder.
  /// - Throws: `rateLimited` where the rate is exceeded.
  func chargeRate(
    of credential: HTTPCredential, _ route: HTTPRoute, now: Timestamp
  ) throws(CallError) {
    if case .server(let claims, _) = credential, case .app(let asked) = route {
      let error = apps.gate(of: claims.app)?.chargeServerRequest(
        cost: asked.cost, mayOverdraw: route.endsCall, now: now)
      if let error { throw error }
    }
    // A request that ends a call passes although others have used the rate up.
    guard let key = credential.rateKey,
      let wait = chargeRate(of: key, mayOverdraw: route.endsCall, now: now)
    else { return }
    throw CallError.rateLimited(
      perSecond: configuration.commandsPerSecond, burst: configuration.commandsBurst,
      retryAfterMilliseconds: wait)
  }

  /// - Returns: nil; or the milliseconds to wait where the rate is exceeded.
  private func chargeRate(of key: RateKey, mayOverdraw: Bool, now: Timestamp) -> UInt32? {
    requestRates.withLock { table in
      let before = table.forgottenEarly
      let wait = table.charge(key, mayOverdraw: mayOverdraw, now: now)
      let forgotten = table.forgottenEarly - before
      if forgotten > 0 { metrics.requestRatesForgotten.increment(by: forgotten) }
      metrics.requestRates.set(Int64(table.count))
      return wait
    }
  }

  /// The token of the Authorization header, verified; nil where there is no such header.
  /// - Throws: `notAccepted`, `expired`, `tokenTooLong`, `revoked`.
  func login(_ headers: HTTPHeaders, now: Timestamp) throws(CallError) -> Login? {
    guard let (scheme, token) = try Self.authorization(headers) else { return nil }
    guard scheme == "bearer" else { throw CallError(.notAccepted) }
    return try login(by: token, now: now)
  }

  /// The scheme of the Authorization header, in lower case, and the credential; nil where there is no such header.
  private static func authorization(
    _ headers: HTTPHeaders
  ) throws(CallError) -> (scheme: String, credential: String)? {
    guard let value = headers.first(name: "authorization") else { return nil }
    let parts = value.split(separator: " ", maxSplits: 1)
    guard parts.count == 2 else { throw CallError(.notAccepted) }
    return (parts[0].lowercased(), String(parts[1]))
  }

  private func login(by token: String, now: Timestamp) throws(CallError) -> Login {
    Login(claims: try verify(token, now: now), token: token)
  }

  /// Verifies a user's token.
  /// - Throws: `notAccepted`, `expired`, `tokenTooLong`, `revoked`.
  func verify(_ token: String, now: Timestamp) throws(CallError) -> DeviceClaims {
    do {
      return try tokens.verify(token, now: now.microseconds / 1_000_000)
    } catch {
      noteRefused(token, now: now)
      throw CallError(error)
    }
  }

  private func verifyServer(_ token: String, now: Timestamp) throws(CallError) -> ServerClaims {
    do {
      return try tokens.verifyServer(token, now: now.microseconds / 1_000_000)
    } catch {
      noteRefused(token, now: now)
      throw CallError(error)
    }
  }

  /// Counts what is wrong with a token, and logs it at debug level. Some of a flood are left out.
  private func noteRefused(_ token: String, now: Timestamp) {
    let isLeftOut = faultsNoted.withLock {
      $0.consume(perSecond: Self.faultsPerSecond, burst: Self.faultsPerSecond, now: now) != nil
    }
    guard !isLeftOut, let fault = tokens.fault(in: token, now: now.microseconds / 1_000_000)
    else { return }
    metrics.tokensRefused[fault.part]?.increment()
    logger.debug(
      "A token was refused.",
      metadata: .keys([.state: "\(fault.part.rawValue)", .reason: "\(fault.text)"]))
  }

  private func capability(_ text: String, now: Timestamp) throws(CallError) -> PushCapability {
    guard let keys = pushKeys.current else {
      metrics.pushRequestsUnready.increment()
      throw CallError(
        .tryAgain, "This edge has not got the cluster's keys for pushes yet. Try again.",
        retryAfterMilliseconds: 1000)
    }
    do {
      let capability = try keys.verify(text, now: now.microseconds / 1_000_000)
      metrics.pushRequestsAccepted.increment()
      return capability
    } catch {
      metrics.pushRequestsRefused.increment()
      throw CallError(error)
    }
  }

  private static func capability(inBodyOf route: HTTPRoute, _ body: [UInt8]) -> String? {
    switch route {
    case .decline, .busy:
      guard let text = try? HTTPBodies.decline(body).capability, !text.isEmpty else { return nil }
      return text
    case .connect, .registerDevice, .unregisterDevice, .call, .history, .historyRead, .health,
      .rules, .app:
      return nil
    }
  }
}
