package import CallTestKit
internal import CallWire
internal import Crypto
internal import Foundation
internal import Synchronization

/// Simulates a push service and its browsers, strict about RFC 8030, 8188, 8291 and 8292. It decrypts each push. It
/// records each error of the sender in `violations`, and answers as a push service would.
package final class WebPushSimulator: Sendable {
  /// A push that was accepted and could be read.
  package struct Accepted: Sendable, Equatable {
    package var subscription: Int
    package var text: [UInt8]
    package var ttlSeconds: Int
    package var urgency: String
    package var topic: String?
    package var authorization: String
    /// Must differ in every push.
    package var salt: [UInt8]
    package var httpVersion: Int
  }

  /// A browser's keys for a subscription.
  struct Browser {
    var key: P256.KeyAgreement.PrivateKey
    var secret: [UInt8]
    var gone: Int?
  }
  struct State {
    var browsers: [Browser] = []
    var accepted: [Accepted] = []
    var violations: [String] = []
    var requests = 0
    /// By their salts.
    var bodies: [[UInt8]: [UInt8]] = [:]
  }
  let state = Mutex(State())
  /// Replaces the simulator's own replies. Requests are still checked.
  package let script = ReplyScript()
  let nowSeconds: @Sendable () -> Int64
  private let server = Mutex<SimulatedHTTPServer?>(nil)
  /// The public key to which subscriptions are bound, base64url.
  let applicationServerKey: String

  /// - Parameters:
  ///   - applicationServerKey: the key with which the app subscribed.
  ///   - nowSeconds: the simulator's clock, in seconds since 1970.
  /// - Throws: the error of the socket.
  package static func start(
    authority: LoopbackAuthority,
    applicationServerKey: String, nowSeconds: @escaping @Sendable () -> Int64
  ) async throws -> WebPushSimulator {
    let simulator = WebPushSimulator(
      applicationServerKey: applicationServerKey, nowSeconds: nowSeconds)
    let server = try await SimulatedHTTPServer.start(
      authority: authority, protocols: ["h2", "http/1.1"]
    ) { [weak simulator] in simulator?.respond(to: $0) ?? .hangUp }
    simulator.server.withLock { $0 = server }
    return simulator
  }

  private init(applicationServerKey: String, nowSeconds: @escaping @Sendable () -> Int64) {
    self.applicationServerKey = applicationServerKey
    self.nowSeconds = nowSeconds
  }

  package func stop() async { await server.withLock { $0 }?.stop() }
  /// The last part of its endpoints.
  private let name = UUID().uuidString.prefix(8)

  package var origin: String { server.withLock { $0?.origin } ?? "" }
  package var port: Int { server.withLock { $0?.port } ?? 0 }
  package var accepted: [Accepted] { state.withLock { $0.accepted } }
  /// The sender's violations of the contract. Empty at the end of a good test.
  package var violations: [String] { state.withLock { $0.violations } }
  package var requests: Int { state.withLock { $0.requests } }

  /// A new browser's subscription, as its `toJSON` gives it.
  /// - Parameter endpointBytes: the length of its endpoint, since Edge on Windows has long ones; nil: a short one.
  package func subscribe(endpointBytes: Int? = nil) -> String {
    let key = P256.KeyAgreement.PrivateKey()
    let secret = (0..<16).map { _ in UInt8.random(in: .min ... .max) }
    let number = state.withLock { state in
      state.browsers.append(Browser(key: key, secret: secret))
      return state.browsers.count - 1
    }
    var endpoint = "\(origin)/push/\(number)/\(name)"
    if let endpointBytes {
      endpoint += "/" + String(repeating: "e", count: endpointBytes - endpoint.utf8.count - 1)
    }
    return #"{"endpoint":"\#(endpoint)","keys":{"p256dh":"#
      + #""\#(Base64URL.text(Array(key.publicKey.x963Representation)))","auth":"#
      + #""\#(Base64URL.text(secret))"}}"#
  }

  /// The browser is gone: its subscription answers with this status, 404 or 410.
  package func unsubscribe(_ number: Int, status: Int = 410) {
    state.withLock { $0.browsers[number].gone = status }
  }

  func violation(_ what: String) { state.withLock { $0.violations.append(what) } }

  private func respond(to request: SimulatedRequest) -> SimulatedReply {
    let path = request.target.split(separator: "/")
    // A retry for an earlier simulator on this port.
    if path.count >= 3, path[2] != name { return .answer(status: 404) }
    state.withLock { $0.requests += 1 }
    if let (status, what) = faultOfHeaders(request) {
      violation(what)
      return script.next() ?? .answer(status: status)
    }
    guard path.count >= 2, path[0] == "push", let number = Int(path[1]),
      let browser = state.withLock({ state in
        state.browsers.indices.contains(number) ? state.browsers[number] : nil
      })
    else {
      violation("unknown subscription")
      return .answer(status: 404)
    }
    guard let opened = Self.open(request.body, browser) else {
      violation("the body cannot be decrypted")
      return .answer(status: 400)
    }
    // A retry repeats the same bytes; another message has another salt.
    let saltIsGood = state.withLock { state in
      let former = state.bodies.updateValue(request.body, forKey: opened.salt)
      return former.map { $0 == request.body } ?? true
    }
    guard saltIsGood else {
      violation("a salt was used twice")
      return .answer(status: 400)
    }
    if let scripted = script.next() { return scripted }
    if let gone = browser.gone { return .answer(status: gone) }
    state.withLock { state in
      state.accepted.append(
        Accepted(
          subscription: number, text: opened.text,
          ttlSeconds: Int(request.header("ttl") ?? "") ?? -1,
          urgency: request.header("urgency") ?? "normal", topic: request.header("topic"),
          authorization: request.header("authorization") ?? "", salt: opened.salt,
          httpVersion: request.httpVersion))
    }
    return .answer(status: 201, headers: [("location", "\(origin)/message/\(UUID().uuidString)")])
  }
}
