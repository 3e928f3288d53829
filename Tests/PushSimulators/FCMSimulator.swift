package import CallTestKit
internal import CryptoExtras
internal import Foundation
internal import Synchronization

/// Simulates Firebase Cloud Messaging and Google's token endpoint, as strict as their contracts. It checks every
/// header, field, signature, claim and time. It records each error of the sender in `violations`, and answers it as the
/// real services do.
package final class FCMSimulator: Sendable {
  /// A message that was accepted.
  package struct Accepted: Sendable, Equatable {
    package var name: String
    package var token: String
    package var data: [String: String]
    /// On Android.
    package var priority: String
    package var ttlSeconds: Int
    /// In a browser.
    package var urgency: String
    /// On an iPhone; nil: nothing is shown there.
    package var alert: Alert?
    package var accessToken: String
    package var httpVersion: Int
  }

  /// The part for an iPhone.
  package struct Alert: Sendable, Equatable {
    package var expiration: Int64
    package var collapseID: String?
    package var key: String
    package var names: [String]

    package init(expiration: Int64, collapseID: String?, key: String, names: [String]) {
      self.expiration = expiration
      self.collapseID = collapseID
      self.key = key
      self.names = names
    }
  }

  struct State {
    var accepted: [Accepted] = []
    var violations: [String] = []
    /// Access tokens, and when they expire.
    var tokens: [String: Int64] = [:]
    var exchanges = 0
    var requests = 0
    var tokenLifetimeSeconds: Int64 = 3600
    /// Invalid device tokens, and FCM's error for each.
    var badDevices: [String: String] = [:]
  }
  let state = Mutex(State())
  /// Replaces the simulator's own replies. Requests are still checked.
  package let sendScript = ReplyScript()
  package let tokenScript = ReplyScript()

  package let project = "callmesh-test"
  package let email = "push@callmesh-test.iam.gserviceaccount.com"
  package let keyID = "0123456789abcdef0123456789abcdef01234567"
  /// The audience of assertions, independent of the address at which they arrive.
  package let audience = "https://oauth2.googleapis.com/token"
  let key: _RSA.Signing.PrivateKey
  let nowSeconds: @Sendable () -> Int64
  private let server = Mutex<SimulatedHTTPServer?>(nil)
  /// The service account's key file; removed by `stop`.
  package let serviceAccountFile: String

  /// - Parameter nowSeconds: the simulator's clock, in seconds since 1970.
  /// - Throws: the error of the file system or of the socket.
  package static func start(
    authority: LoopbackAuthority?,
    nowSeconds: @escaping @Sendable () -> Int64
  ) async throws -> FCMSimulator {
    let simulator = try FCMSimulator(nowSeconds: nowSeconds)
    let server = try await SimulatedHTTPServer.start(
      authority: authority, protocols: ["h2", "http/1.1"]
    ) { [weak simulator] in simulator?.respond(to: $0) ?? .hangUp }
    simulator.server.withLock { $0 = server }
    return simulator
  }

  private init(nowSeconds: @escaping @Sendable () -> Int64) throws {
    key = try _RSA.Signing.PrivateKey(keySize: .bits2048)
    self.nowSeconds = nowSeconds
    serviceAccountFile = NSTemporaryDirectory() + "/callmesh-fcm-\(UUID().uuidString).json"
    try writeServiceAccount(key)
  }

  deinit { try? FileManager.default.removeItem(atPath: serviceAccountFile) }

  private func writeServiceAccount(_ key: _RSA.Signing.PrivateKey) throws {
    let file = [
      "type": "service_account", "project_id": project, "private_key_id": keyID,
      "private_key": key.pkcs8PEMRepresentation, "client_email": email, "client_id": "1",
      "auth_uri": "https://accounts.google.com/o/oauth2/auth", "token_uri": audience,
      "universe_domain": "googleapis.com",
    ]
    try JSONSerialization.data(withJSONObject: file).write(to: URL(filePath: serviceAccountFile))
  }

  package func stop() async {
    try? FileManager.default.removeItem(atPath: serviceAccountFile)
    await server.withLock { $0 }?.stop()
  }

  package func dropConnections() { server.withLock { $0 }?.dropConnections() }

  package var connectionCount: Int { server.withLock { $0?.connectionCount } ?? 0 }
  package var origin: String { server.withLock { $0?.origin } ?? "" }
  package var tokenEndpoint: String { origin + "/token" }
  package var accepted: [Accepted] { state.withLock { $0.accepted } }
  /// The sender's violations of the contract. Empty at the end of a good test.
  package var violations: [String] { state.withLock { $0.violations } }
  /// Requests for access tokens.
  package var exchanges: Int { state.withLock { $0.exchanges } }
  /// Requests to send.
  package var requests: Int { state.withLock { $0.requests } }

  /// Ends all access tokens, as the revocation of a key does.
  package func revokeTokens() { state.withLock { $0.tokens = [:] } }

  /// - Parameter code: `UNREGISTERED`, `SENDER_ID_MISMATCH`, or `INVALID_ARGUMENT`.
  package func refuse(device: String, with code: String) {
    state.withLock { $0.badDevices[device] = code }
  }

  private func respond(to request: SimulatedRequest) -> SimulatedReply {
    switch request.target {
    case "/token": return exchange(request)
    case "/v1/projects/\(project)/messages:send": return send(request)
    default:
      violation("unknown path")
      return .answer(status: 404, headers: [("content-type", "text/html")], body: "<html>404")
    }
  }

  func violation(_ what: String) { state.withLock { $0.violations.append(what) } }
}
