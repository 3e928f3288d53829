import CallCore
import CallPush
import Testing

/// A pool against a peer that does anything, allowed or not. `PoolRig` checks each step; these tests check the result
/// of each push.
@Suite("APNs pool: any order of events")
struct APNsRandomTests {
  private struct Peer {
    var random: SplitMix64
    /// The number of permissions to send a push again: it was refused unprocessed, or the answer allows a retry.
    var leave: [APNsPushKey: Int] = [:]
    var notices: Set<APNsPushKey> = []

    mutating func pick<T>(_ items: [T]) -> T? { items.randomElement(using: &random) }
    mutating func chance(_ percent: Int) -> Bool {
      Int.random(in: 0..<100, using: &random) < percent
    }
  }

  static let answers: [(Int, String)] = [
    (200, ""), (200, ""), (200, ""), (200, ""), (400, "BadDeviceToken"), (400, "BadTopic"),
    (400, "IdleTimeout"), (403, "ExpiredProviderToken"), (403, "InvalidProviderToken"),
    (410, "Unregistered"), (413, "PayloadTooLarge"), (429, "TooManyRequests"),
    (429, "TooManyProviderTokenUpdates"), (500, "InternalServerError"), (503, "Shutdown"),
    (503, "ServiceUnavailable"),
  ]

  @Test("each push ends once, is sent again only where that is allowed", arguments: 0..<300)
  func anyOrder(seed: Int) {
    var peer = Peer(random: SplitMix64(seed: UInt64(seed) &* 77 &+ 5))
    var rig = PoolRig(
      connections: Int.random(in: 1...3, using: &peer.random),
      inFlight: Int.random(in: 1...8, using: &peer.random), queued: 40, seed: UInt64(seed)
    ) { $0.noticeTimeout = .seconds(15) }
    var pushes: [APNsPushKey] = []
    for _ in 0..<600 {
      if peer.chance(45) {
        let span = Span.milliseconds(Int64.random(in: 1...20_000, using: &peer.random))
        let isUrgent = peer.chance(70)
        let push = rig.submit(urgent: isUrgent, for: span)
        pushes.append(push)
        if !isUrgent { peer.notices.insert(push) }
      }
      step(&rig, &peer)
      if peer.chance(40) {
        rig.pass(.milliseconds(Int64.random(in: 1...400, using: &peer.random)))
      }
    }
    rig.run { $0.close(now: $1) }
    rig.wait(.seconds(6))
    #expect(rig.isFinished)
    #expect(rig.machine.connectionIDs.isEmpty)
    #expect(rig.disconnected.count == rig.connected.count)
    check(rig, pushes, peer)
  }

  private func check(_ rig: PoolRig, _ pushes: [APNsPushKey], _ peer: Peer) {
    #expect(pushes.allSatisfy { rig.results[$0] != nil }, "a push was lost")
    var attempts: [APNsPushKey: Int] = [:]
    for sent in rig.sent {
      attempts[sent.push, default: 0] += 1
      #expect(sent.attempt == attempts[sent.push])
    }
    for (push, count) in attempts where peer.notices.contains(push) {
      // The first attempt, one of unknown fate, and the permitted ones.
      #expect(count <= 2 + peer.leave[push, default: 0], "notice \(push) was sent too often")
    }
  }

  private func step(_ rig: inout PoolRig, _ peer: inout Peer) {
    guard let id = peer.pick(rig.machine.connectionIDs) else { return }
    let open = rig.openSends(id)
    switch Int.random(in: 0..<100, using: &peer.random) {
    case 0..<12:
      rig.up(id, maxStreams: peer.chance(20) ? nil : Int.random(in: 1...12, using: &peer.random))
    case 12..<65:
      guard let sent = peer.pick(open), let (status, reason) = peer.pick(Self.answers) else {
        return
      }
      if status >= 429 || status == 403 || reason == "IdleTimeout" {
        peer.leave[sent.push, default: 0] += 1
      }
      rig.answer(sent, status, reason)
    case 65..<72:
      guard let sent = peer.pick(open) else { return }
      let isRefused = peer.chance(70)
      if isRefused { peer.leave[sent.push, default: 0] += 1 }
      rig.reset(sent, refused: isRefused)
    case 72..<76:
      let last = peer.pick(open)?.stream ?? (peer.chance(50) ? 0 : 0x7fff_ffff)
      for sent in open where sent.stream > last { peer.leave[sent.push, default: 0] += 1 }
      rig.goAway(id, last: last, error: peer.chance(30), reason: "Shutdown")
    case 76..<80: rig.lose(id)
    case 80..<84:
      // Lower than the number of open streams, as after refused tokens, or the former limit.
      guard rig.machine.connection(id)?.advertised != 0 else { return }
      rig.settings(id, Int.random(in: 1...12, using: &peer.random))
    case 84..<95: rig.read(id)
    case 95: rig.run { $0.replaceKey(now: $1) }
    default: rig.pass(.milliseconds(Int64.random(in: 1...3000, using: &peer.random)))
    }
  }
}
