internal import CallAuth
internal import CallCore
internal import CallTelemetry
internal import CallWire
internal import NIOHTTP1
internal import Synchronization

/// A token that was found good.
struct Login {
  var claims: DeviceClaims
  var token: String
}

/// By what right a request speaks.
enum HTTPCredential {
  /// A user's token: `Authorization: Bearer …`.
  case bearer(Login)
  /// What a push allows, for one call and one device: `Authorization: CallmeshPush …`.
  case push(PushCapability, text: String)

  var user: UserKey {
    switch self {
    case .bearer(let login): UserKey(app: login.claims.app, user: login.claims.user)
    case .push(let capability, _): UserKey(app: capability.app, user: capability.user)
    }
  }

  /// As the coordinator is shown it.
  var shown: Credential {
    switch self {
    case .bearer(let login): .token(login.token)
    case .push(_, let text): .pushCapability(text)
    }
  }

  /// Who is counted for the rate limit.
  fileprivate var rateKey: RateKey {
    switch self {
    case .bearer(let login): RateKey(user: user, device: DeviceID(login.claims.device ?? ""))
    case .push(let capability, _): RateKey(user: user, device: DeviceID(capability.device))
    }
  }

  /// The device that speaks: the credential's, or the one it names itself, which must not differ.
  func device(named: String?) throws(CallError) -> DeviceID {
    switch self {
    case .bearer(let login):
      return try DeviceID.resolve(claimed: login.claims.device, named: named ?? "").get()
    case .push(let capability, _):
      guard named?.hasBytes(of: capability.device) ?? true else {
        throw CallError(.notAccepted)
      }
      return DeviceID(capability.device)
    }
  }

  /// Whether it is good for a request at all. Which part of a capability does not fit is not told.
  fileprivate func check(_ route: HTTPRoute) throws(CallError) {
    guard case .push(let capability, _) = self else { return }
    guard let address = route.callAddress, address.callee.hasBytes(of: capability.user),
      address.call.bytes == capability.call
    else { throw CallError(.notAccepted) }
  }
}

extension EdgeShared {
  /// The credential of a request, checked, and good for the route.
  ///
  /// What a push allows may stand in the body of a decline or busy as well, for apps whose code
  /// cannot set headers. Never in the URL: proxies and servers log those.
  func credential(
    _ headers: HTTPHeaders, _ route: HTTPRoute, body: [UInt8], now: Timestamp
  ) throws(CallError) -> HTTPCredential {
    let credential: HTTPCredential
    if let value = headers.first(name: "authorization") {
      let parts = value.split(separator: " ", maxSplits: 1)
      guard parts.count == 2 else { throw CallError(.notAccepted) }
      let text = String(parts[1])
      switch parts[0].lowercased() {
      case "bearer": credential = .bearer(try login(by: text, now: now))
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

  /// Takes a request of this credential's holder from its rate.
  /// - Returns: nil, or after how many milliseconds it will be taken.
  func takeFromRate(of credential: HTTPCredential, now: Timestamp) -> UInt32? {
    requestRates.withLock { table in
      let before = table.forgottenEarly
      let wait = table.take(credential.rateKey, now: now)
      let forgotten = table.forgottenEarly - before
      if forgotten > 0 { metrics.requestRatesForgotten.increment(by: forgotten) }
      return wait
    }
  }

  /// What the Authorization header says; nil where there is none.
  func login(_ headers: HTTPHeaders, now: Timestamp) throws(CallError) -> Login? {
    guard let value = headers.first(name: "authorization") else { return nil }
    let parts = value.split(separator: " ", maxSplits: 1)
    guard parts.count == 2, parts[0].lowercased() == "bearer" else {
      throw CallError(.notAccepted)
    }
    return try login(by: String(parts[1]), now: now)
  }

  private func login(by token: String, now: Timestamp) throws(CallError) -> Login {
    do {
      let claims = try tokens.verify(token, now: now.microseconds / 1_000_000)
      return Login(claims: claims, token: token)
    } catch {
      throw CallError(error)
    }
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
    case .connect, .registerDevice, .unregisterDevice, .call, .health:
      return nil
    }
  }
}
