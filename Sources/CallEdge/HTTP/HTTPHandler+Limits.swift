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

  /// Answers a request without a credential: it counts at its address. Where the address has used up its rate, nothing
  /// more is read from the connection for a second. A request with a credential does not count here, so that a peer
  /// that shares the address cannot keep others out.
  func answerStranger(_ exchange: HTTPExchange, _ said: HTTPAnswer) {
    guard let error = refusalByRate() else { return answer(exchange, said) }
    answer(exchange, HTTPAnswer(error), rests: true)
  }

  /// Answers a request whose credential was refused, or whose user has used up a rate. After `refusalsInARowMax`
  /// requests beyond the rate, nothing more is read from the connection for a second.
  func answerRefused(_ exchange: HTTPExchange, _ head: HTTPRequestHead, _ error: CallError) {
    let refusal = HTTPAnswer(loop.countRefusal(error, connection))
    guard head.headers.contains(name: "authorization") || error.code == .rateLimited else {
      return answerStranger(exchange, refusal)
    }
    refusalsInARow = error.code == .rateLimited ? refusalsInARow + 1 : 0
    let rests = refusalsInARow >= Self.refusalsInARowMax
    if rests { refusalsInARow = 0 }
    answer(exchange, refusal, rests: rests)
  }

  private static let refusalsInARowMax = 8

  /// Takes a handshake from the rate of its token's user, or of its address where it has no token.
  /// - Returns: false where the rate is used up; then the handshake is answered.
  func admits(_ upgrade: WebSocketUpgrade, _ exchange: HTTPExchange) -> Bool {
    var refusal: CallError?
    if let login = upgrade.login {
      do {
        try loop.shared.chargeRate(of: .bearer(login), .connect, now: loop.now)
      } catch {
        refusal = error
      }
    } else {
      refusal = refusalByRate()
    }
    guard let refusal else { return true }
    answer(exchange, HTTPAnswer(refusal), rests: true)
    return false
  }

  /// Takes a request from the rate of its address.
  /// - Returns: why it is refused; nil where it is not.
  private func refusalByRate() -> CallError? {
    let gate = loop.shared.gate
    guard let wait = gate.chargeRequest(of: connection.address, now: loop.now) else { return nil }
    loop.metrics.count(limit: .requestsPerAddress)
    return CallError(
      .rateLimited,
      "At most \(gate.limits.requestsPerAddress) requests a second from one address.",
      retryAfterMilliseconds: wait)
  }
}

extension HTTPRequestHead {
  /// Whether the request has one Host header, with characters that a host may have. Others are refused, since
  /// proxies and servers disagree about which of two hosts counts (RFC 9112, 3.2).
  var hasAcceptableHost: Bool {
    let hosts = headers["host"]
    if hosts.isEmpty { return (version.major, version.minor) < (1, 1) }
    return hosts.count == 1 && hosts[0].utf8.allSatisfy(Self.isOfHost)
  }

  /// Whether RFC 3986, 3.2.2 and 3.2.3 allow the character. A comma is not allowed: it would join two hosts.
  private static func isOfHost(_ byte: UInt8) -> Bool {
    switch byte {
    case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
      UInt8(ascii: "0")...UInt8(ascii: "9"):
      true
    default: "-._~:[]%!$&'()*+;=".utf8.contains(byte)
    }
  }

  /// Whether the client waits for a 100 before it sends the body. HTTP/1.0 has no expectations.
  var expectsContinue: Bool {
    (version.major, version.minor) >= (1, 1)
      && headers[canonicalForm: "expect"].contains { $0.lowercased() == "100-continue" }
  }
}

/// The header `X-Forwarded-For`, in which proxies give a device's address.
package enum ForwardedFor {
  /// The most entries that are read.
  private static let hopsMax = 32

  /// The rightmost address that is not a trusted proxy's. Each proxy appends the address of its peer, so
  /// what stands to the left of it comes from a peer that is not trusted.
  /// - Parameter values: the lines of the header, in their order.
  /// - Returns: where there is no such address, the leftmost trusted proxy; nil where there is none either.
  package static func device(_ values: [String], isTrusted: (PeerAddress) -> Bool)
    -> PeerAddress?
  {
    var farthest: PeerAddress?
    var hops = 0
    for value in values.reversed() {
      for part in value.split(separator: ",", omittingEmptySubsequences: false).reversed() {
        guard hops < hopsMax, let address = address(part) else { return farthest }
        if !isTrusted(address) { return address }
        farthest = address
        hops += 1
      }
    }
    return farthest
  }

  /// Some proxies write the port as well: `192.0.2.1:4711`, `[2001:db8::1]:4711`.
  private static func address(_ part: Substring) -> PeerAddress? {
    var text = part
    while text.first == " " || text.first == "\t" { text.removeFirst() }
    while text.last == " " || text.last == "\t" { text.removeLast() }
    if text.first == "[" {
      return text.firstIndex(of: "]").flatMap { PeerAddress(text[..<$0].dropFirst()) }
    }
    if let colon = text.firstIndex(of: ":"), colon == text.lastIndex(of: ":") {
      text = text[..<colon]
    }
    return PeerAddress(text)
  }
}
