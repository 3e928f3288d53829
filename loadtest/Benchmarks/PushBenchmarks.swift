import CallCore
import CallPush
import CallWire
import Crypto
import Foundation

/// The cost of a push before it leaves, beside its request.
enum PushBenchmarks {
  static func run(_ measure: Measure) throws {
    let browser = P256.KeyAgreement.PrivateKey()
    let point = Base64URL.text(Array(browser.publicKey.x963Representation))
    let text =
      #"{"endpoint":"https://fcm.googleapis.com/fcm/send/x","keys":{"p256dh":"\#(point)","#
      + #""auth":"AAAAAAAAAAAAAAAAAAAAAA"}}"#
    guard let subscription = PushSubscription(text) else { return }
    measure("push: read a Web Push subscription", runs: 2000) { _ in
      blackHole(PushSubscription(text))
    }
    for bytes in [300, 3993] {
      let payload = [UInt8](repeating: 97, count: bytes)
      try measure("push: encrypt a Web Push of \(bytes) bytes", runs: 1000) { _ in
        blackHole(try WebPushEncryption.seal(payload, for: subscription))
      }
    }
    let key = try VAPIDKey(
      pem: Array(P256.Signing.PrivateKey().pemRepresentation.utf8), file: "benchmark",
      subject: "mailto:push@example.com", sender: "benchmark")
    try measure("push: sign a VAPID token", runs: 1000) { number in
      blackHole(
        try key.authorization(
          origin: "https://fcm.googleapis.com", nowSeconds: 1_800_000_000 + Int64(number)))
    }
    var cache = VAPIDCache(key: key)
    let now = Timestamp(microseconds: 1_800_000_000_000_000)
    measure("push: a VAPID token from the cache", runs: 100_000) { _ in
      blackHole(
        cache.authorization(origin: "https://fcm.googleapis.com", now: now, chance: 0))
    }
    let message = PushMessage(
      id: "0c1a", token: PushToken(provider: .fcm, environment: "", topic: "", token: "abc:def"),
      purpose: .ring,
      payload: Array(
        #"{"call":"0f0e0d0c","caller":"alice","name":"Alice","video":"1","deadline":"1"}"#.utf8),
      kind: .background, deadline: now + .seconds(30), collapseKey: "0f0e0d0c")
    measure("push: write a checked message for FCM", runs: 20_000) { _ in
      blackHole(FCMMessage.body(message, data: message.payload, now: now))
    }
  }
}
