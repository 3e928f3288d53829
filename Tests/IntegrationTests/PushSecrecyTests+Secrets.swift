import CallBus
import CallCore
import CallTestKit
import CallWire
import Foundation
import NATSBus
import PushSimulators
import Testing

extension PushSecrecyTests {
  /// The secrets, calls and answers of the run.
  struct Played {
    var secrets = SecretSearch()
    var calls: [CallID] = []
    /// The token that another user has at the end.
    var moved: PushToken?
    /// The answers of edges.
    var answers: [String: String] = [:]

    mutating func add(_ name: String, _ token: PushToken) {
      guard token.provider == .webPush else { return secrets.add(name, token.token) }
      guard let subscription = WebPushSubscription(json: token.token) else { return }
      secrets.add(
        name + ", endpoint", String(subscription.endpoint.dropFirst(subscription.origin.count)))
      secrets.add(name + ", auth", bytes: subscription.auth)
      secrets.add(name + ", p256dh", bytes: subscription.p256dh)
    }
  }

  /// The secrets that must not be printed beside the tokens: all keys, and all that they signed.
  @inline(never)
  func keys(_ stage: PushCluster, _ played: inout Played) async throws {
    played.secrets.add("APNs key", pem: stage.apns.key.privateKeyPEM)
    played.secrets.add("VAPID key", pem: stage.webKeyPEM)
    let account = try JSONDecoder().decode(
      [String: String].self,
      from: Data(contentsOf: URL(fileURLWithPath: stage.fcm.serviceAccountFile)))
    played.secrets.add("service account", pem: try #require(account["private_key"]))
    for (number, token) in Set(stage.fcm.accepted.map(\.accessToken)).sorted().enumerated() {
      played.secrets.add("access token \(number)", token)
    }
    for (number, text) in Set(stage.web.accepted.map(\.authorization)).sorted().enumerated() {
      played.secrets.add("VAPID authorization \(number)", text)
    }
    for (number, token) in stage.logins.enumerated() {
      played.secrets.add("login \(number)", token)
    }
    // Any token that is signed: how the first part of one can begin.
    for start in ["eyJhbGciOi", "eyJraWQiOi", "eyJ0eXAiOi"] { played.secrets.add("a JWT", start) }
    let file = URL(fileURLWithPath: stage.cluster.folder + "/keys.json")
    let text = try String(contentsOf: file, encoding: .utf8)
    for match in text.matches(of: #/"secret" : "([^"]+)"/#) {
      played.secrets.add("key of the app", String(match.1))
    }
    for (number, key) in try await clusterKeys(stage).enumerated() {
      played.secrets.add("key of the cluster \(number)", bytes: key)
    }
  }

  /// For what pushes allow, and for session tickets.
  @inline(never)
  private func clusterKeys(_ stage: PushCluster) async throws -> [[UInt8]] {
    let subjects = NATSGround.subjects
    let bus = try await stage.cluster.ground.connectAsRoot()
    var options = BucketOptions()
    options.createsMissing = false
    var keys: [[UInt8]] = []
    for (bucket, key) in [(subjects.pushKeyBucket, "push-keys"), (subjects.ticketBucket, "keys")] {
      let record = try await bus.openBucket(bucket, options).get(key)
      keys += try ClusterCodec.pushKeys(try #require(record?.value)).keys
    }
    await bus.close()
    #expect(keys.count == 2)
    return keys
  }
}
