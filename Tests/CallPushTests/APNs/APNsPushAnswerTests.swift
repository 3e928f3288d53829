import CallCore
import CallPush
import Testing

/// Answers that move a push or a connection, new keys, and the end of a pool.
extension APNsPushTests {
  @Test("too many requests for one device: it rests, the others do not wait")
  func resting() {
    var (rig, _) = PoolRig.proven()
    let slow = rig.submit()
    rig.answer(rig.sent[0], 429, "TooManyRequests")
    let other = rig.submit()
    rig.answer(rig.sent[1], 200)
    #expect(rig.outcome(other) == .accepted)
    rig.pass(.milliseconds(749))
    #expect(rig.sent.count == 2)
    rig.pass(.milliseconds(252))
    #expect(rig.sent.count == 3)
    rig.answer(rig.sent[2], 200)
    #expect(rig.outcome(slow) == .accepted)
  }

  @Test("5xx twice: a quick try on another connection, later ones on new ones")
  func serverError() {
    var (rig, ids) = PoolRig.proven(limits: PoolRig.limits(connections: 2))
    rig.pass(.seconds(2))
    let push = rig.submit()
    rig.answer(rig.sent[0], 500, "InternalServerError")
    #expect(rig.connected.count == 3, "one that answers so is replaced")
    rig.wait(.milliseconds(150))
    #expect(rig.sent.map(\.connection) == ids)
    rig.answer(rig.sent[1], 503, "ServiceUnavailable")
    #expect(rig.outcome(push) == nil)
    #expect(rig.connected.count == 4)
    rig.up(rig.connected[2])
    rig.wait(.milliseconds(500))
    #expect(rig.sent.last?.connection == rig.connected[2] && rig.sent.count == 3)
    rig.answer(rig.sent[2], 200)
    #expect(rig.outcome(push) == .accepted)
  }

  @Test("5xx for 25 s: the ring is tried until then, on ever later connections, and arrives")
  func longTrouble() {
    var rig = PoolRig()
    let push = rig.submit(for: .seconds(30))
    let end = rig.now + .seconds(25)
    while rig.outcome(push) == nil, rig.now < PoolRig.start + .seconds(31) {
      for id in rig.machine.connectionIDs where rig.machine.connection(id)?.isUsable == false {
        rig.up(id)
      }
      for id in rig.machine.connectionIDs {
        for sent in rig.openSends(id) {
          rig.answer(sent, rig.now < end ? 503 : 200, rig.now < end ? "ServiceUnavailable" : "")
        }
      }
      rig.pass(.milliseconds(50))
    }
    #expect(rig.outcome(push) == .accepted)
    #expect((6...15).contains(rig.sent.count))
    #expect(rig.connected.count <= rig.sent.count + 1)
  }

  @Test("an expired provider token: the connection takes no more, the push goes to another")
  func expiredToken() {
    var (rig, ids) = PoolRig.proven()
    rig.pass(.seconds(2))
    let push = rig.submit()
    let other = rig.submit()
    rig.answer(rig.sent[0], 403, "ExpiredProviderToken")
    #expect(rig.connected.count == 2)
    rig.answer(rig.sent[1], 403, "ExpiredProviderToken")
    #expect(rig.disconnected[ids[0]] != nil)
    rig.up(rig.connected[1])
    rig.answer(rig.sent[2], 200)
    rig.answer(rig.sent[3], 403, "ExpiredProviderToken")
    #expect([push, other].compactMap { rig.outcome($0) } == [.accepted])
    #expect(rig.notes.contains(.alarm("ExpiredProviderToken")), "a clock is wrong")
  }

  @Test("a provider token that came too soon: the connection goes back to the one before it")
  func tooManyTokens() {
    var (rig, ids) = PoolRig.proven()
    rig.wait(.seconds(51 * 60), step: .seconds(1))
    let push = rig.submit()
    #expect(rig.sent[0].token == 2)
    // Its first token is now past the age at which it may be used again.
    #expect(rig.now - PoolRig.start < .seconds(55 * 60))
    rig.answer(rig.sent[0], 429, "TooManyProviderTokenUpdates")
    #expect(rig.notes.contains(.wentBackToFormerToken(ids[0])))
    #expect(rig.sent[1].push == push && rig.sent[1].token == 1)
    rig.answer(rig.sent[1], 200)
    #expect(rig.outcome(push) == .accepted)
    rig.wait(.seconds(5 * 60), step: .seconds(1))
    let later = rig.submit()
    #expect(rig.connected.count == 2, "too old: a new connection, not a new token")
    rig.up(rig.connected[1])
    rig.answer(rig.sent[2], 200)
    #expect(rig.outcome(later) == .accepted)
  }

  @Test("each connection has a token of its own, for 40 minutes and more")
  func tokensPerConnection() {
    var (rig, ids) = PoolRig.proven(limits: PoolRig.limits(connections: 2))
    var lastToken: [APNsConnectionID: (serial: UInt32, since: Timestamp)] = [:]
    for _ in 0..<(3 * 60 * 6) {
      rig.pass(.seconds(10))
      rig.sent = []
      for _ in 0..<2 { _ = rig.submit() }
      for sent in rig.sent {
        if let last = lastToken[sent.connection], last.serial != sent.token {
          #expect(rig.now - last.since >= .seconds(39 * 60))
          lastToken[sent.connection] = (sent.token, rig.now)
        } else if lastToken[sent.connection] == nil {
          lastToken[sent.connection] = (sent.token, rig.now)
        }
        rig.answer(sent, 200)
      }
    }
    #expect(rig.connected == ids)
    #expect(lastToken.values.allSatisfy { $0.serial >= 4 })
  }

  @Test("Forbidden is an alarm, and silences nobody: it may be over before the deadline")
  func forbidden() {
    var rig = PoolRig()
    rig.up(rig.connected[0])
    let pushes = (0..<3).map { _ in rig.submit() }
    rig.answer(rig.sent[0], 403, "Forbidden")
    #expect(rig.notes.contains(.alarm("Forbidden")))
    #expect(rig.disconnected[rig.connected[0]] != nil)
    rig.wait(.milliseconds(500))
    rig.up(rig.connected[1])
    for index in 1...3 { rig.answer(rig.sent[index], 200) }
    #expect(pushes.allSatisfy { rig.outcome($0) == .accepted })
  }

  @Test("a key that is refused for ever: the connections come ever later")
  func keyRefusedForEver() {
    var rig = PoolRig()
    let pushes = (0..<3).map { _ in rig.submit(for: .seconds(60)) }
    while rig.now < PoolRig.start + .seconds(61) {
      for id in rig.machine.connectionIDs {
        if rig.machine.connection(id)?.isUsable == false { rig.up(id) }
        for sent in rig.openSends(id) { rig.answer(sent, 403, "InvalidProviderToken") }
      }
      rig.pass(.milliseconds(50))
    }
    #expect(
      pushes.allSatisfy { rig.outcome($0) == .failed(reason: "InvalidProviderToken") },
      "each has its turn")
    #expect((12...30).contains(rig.connected.count))
  }

  @Test("a new key: those under way are answered, new pushes use new connections")
  func newKey() {
    var (rig, ids) = PoolRig.proven(limits: PoolRig.limits(connections: 2))
    let old = rig.submit()
    rig.run { $0.replaceKey(now: $1) }
    #expect(rig.connected.count == 4)
    #expect(rig.disconnected[ids[1]] != nil, "nothing was under way there")
    let new = rig.submit()
    #expect(rig.sent.count == 1)
    rig.answer(rig.sent[0], 200)
    #expect(rig.outcome(old) == .accepted)
    #expect(rig.disconnected[ids[0]] != nil)
    rig.up(rig.connected[2])
    rig.answer(rig.sent[1], 200)
    #expect(rig.outcome(new) == .accepted)
  }

  @Test("close: nothing new, what is under way may finish")
  func close() {
    var (rig, ids) = PoolRig.proven()
    let push = rig.submit()
    rig.run { $0.close(now: $1) }
    let late = rig.submit()
    #expect(rig.outcome(late) == .failed(reason: "closing"))
    #expect(!rig.isFinished)
    rig.answer(rig.sent[0], 200)
    #expect(rig.outcome(push) == .accepted)
    #expect(rig.isFinished)
    #expect(rig.disconnected[ids[0]] == "closed")
    rig.wait(.seconds(10))
    #expect(rig.connected == ids, "it opens nothing any more")
  }

  @Test("close: after the grace everything ends")
  func closeCut() {
    var rig = PoolRig()
    let push = rig.submit()
    rig.run { $0.close(now: $1) }
    rig.wait(.milliseconds(4950))
    #expect(!rig.isFinished)
    rig.wait(.milliseconds(50))
    #expect(rig.outcome(push) == .failed(reason: "closed"))
    #expect(rig.isFinished)
  }

  @Test("BadDeviceToken and DeviceTokenNotForTopic refuse the token")
  func badTokens() {
    var (rig, _) = PoolRig.proven()
    let bad = rig.submit()
    let wrong = rig.submit()
    rig.answer(rig.sent[0], 400, "BadDeviceToken")
    rig.answer(rig.sent[1], 400, "DeviceTokenNotForTopic")
    #expect(rig.results[bad] == .tokenRefused(reason: "BadDeviceToken"))
    #expect(rig.results[wrong] == .tokenRefused(reason: "DeviceTokenNotForTopic"))
  }
}
