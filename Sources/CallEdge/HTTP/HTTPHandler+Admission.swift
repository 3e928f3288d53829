internal import CallCore
internal import CallTelemetry
internal import CallWire
internal import NIOCore
internal import NIOHTTP1

/// Which requests are looked at, whatever they ask for.
extension HTTPHandler {
  /// Why a request is refused when its head has come, before anything of its body is kept.
  func refusal(of head: HTTPRequestHead) -> CallError? {
    guard head.hasAcceptableHost else {
      return CallError(.invalidField, "A request has one Host header, with the name of a host.")
    }
    let gate = loop.shared.gate
    if let address = forwardedAddress(head) {
      guard loop.identify(connection, as: address) else { return .tooManyConnections(gate.limits) }
    }
    return nil
  }

  /// Whose request it is, where a trusted proxy says so.
  private func forwardedAddress(_ head: HTTPRequestHead) -> PeerAddress? {
    let gate = loop.shared.gate
    guard !loop.shared.configuration.proxyProtocol, let proxy = directAddress,
      gate.isTrusted(proxy)
    else { return nil }
    let said = ForwardedFor.device(head.headers["x-forwarded-for"], isTrusted: gate.isTrusted)
    if said == nil { gate.metrics.withoutAddress.increment() }
    return said ?? proxy
  }

  /// Takes a request from the rate of its address.
  func refusalByRate() -> CallError? {
    let gate = loop.shared.gate
    guard let wait = gate.takeRequest(of: connection.address, now: loop.now) else { return nil }
    gate.metrics.limit(.requestsPerAddress)
    return CallError(
      .rateLimited,
      "At most \(gate.limits.requestsPerAddress) requests a second from one address.",
      retryAfterMilliseconds: wait)
  }
}

extension EdgeLoop {
  /// Why no credential of this connection is looked at just now.
  func refusalToAuthenticate(_ connection: Connection) -> CallError? {
    let gate = shared.gate
    guard let wait = gate.waitToAuthenticate(connection.address, now: now) else { return nil }
    gate.metrics.limit(.failedAuthsPerAddress)
    return CallError(
      .rateLimited,
      "At most \(gate.limits.failedAuthsPerAddress) refused tokens a minute from one address.",
      retryAfterMilliseconds: wait)
  }

  /// A credential of this connection led to an error.
  func noteFailure(_ connection: Connection, _ code: CallError.Code?) {
    switch code {
    case .notAccepted, .expired, .tokenTooLong, .revoked:
      shared.gate.failedToAuthenticate(connection.address, now: now)
    default: break
    }
  }
}
