internal import CallCore
internal import CallTelemetry
internal import CallWire
internal import NIOCore
internal import NIOHTTP1

/// Limits on requests, whatever they ask for.
extension HTTPHandler {
  /// Why a request is refused by its head, before any of its body is kept; nil where it is not.
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

  /// The address of the device whose request it is, where a trusted proxy gives it.
  private func forwardedAddress(_ head: HTTPRequestHead) -> PeerAddress? {
    let gate = loop.shared.gate
    guard !loop.shared.configuration.proxyProtocol, let proxy = directAddress,
      gate.isTrusted(proxy)
    else { return nil }
    let said = ForwardedFor.device(head.headers["x-forwarded-for"], isTrusted: gate.isTrusted)
    if said == nil { loop.metrics.withoutAddress.increment() }
    return said ?? proxy
  }

  /// Takes a request from the rate of its address.
  /// - Returns: why it is refused; nil where it is not.
  func refusalByRate() -> CallError? {
    let gate = loop.shared.gate
    guard let wait = gate.takeRequest(of: connection.address, now: loop.now) else { return nil }
    loop.metrics.count(limit: .requestsPerAddress)
    return CallError(
      .rateLimited,
      "At most \(gate.limits.requestsPerAddress) requests a second from one address.",
      retryAfterMilliseconds: wait)
  }
}
