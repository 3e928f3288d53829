import CallAuth
import CallProcesses
import Foundation

/// The app's server of a cluster.
extension TestCluster {
  struct ServerAnswer: Sendable {
    var status: Int32
    var body: [UInt8]
  }

  /// Asks `e1` as the app's server, and again for a minute while a shard has no owner.
  func asServer(_ method: String, _ path: String, body: String = "") async throws -> ServerAnswer {
    let now = Int64(Date().timeIntervalSince1970)
    let token = try keys.mintServerToken(app: "demo", lifetimeSeconds: 600, now: now)
    let deadline = ContinuousClock.now + .seconds(60)
    while true {
      let answer = await HTTPProbe.send(
        method, "127.0.0.1", port("e1"), path, headers: ["Authorization: Bearer \(token)"],
        body: body, seconds: 30)
      guard answer.status == 503 || answer.status == 0, ContinuousClock.now < deadline else {
        return ServerAnswer(status: answer.status, body: Array(answer.body.utf8))
      }
      try await Task.sleep(for: .milliseconds(100))
    }
  }
}
