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
    rig.pass(.milliseconds(999))
    #expect(rig.sent.count == 2)
    rig.pass(.milliseconds(502))
    #expect(rig.sent.count == 3)
    rig.answer(rig.sent[2], 200)
    #expect(rig.outcome(slow) == .accepted)
  }

  @Test("5xx: one quick try on another connection")
  func serverError() {
    var (rig, ids) = PoolRig.proven(limits: PoolRig.limits(connections: 2))
    let push = rig.submit()
    rig.answer(rig.sent[0], 500, "InternalServerError")
    rig.pass(.milliseconds(150))
    #expect(rig.sent.map(\.connection) == ids)
    rig.answer(rig.sent[1], 503, "ServiceUnavailable")
    #expect(rig.outcome(push) == .failed(reason: "ServiceUnavailable"))
    rig.wait(.seconds(5))
    #expect(rig.sent.count == 2)
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
    #expect([push, other].compactMap { rig.outcome($0) }.contains(.accepted))
    #expect(
      [push, other].compactMap { rig.outcome($0) }
        .contains(.rejected(reason: "ExpiredProviderToken")))
    #expect(rig.notes.contains(.alarm("ExpiredProviderToken")))
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

  @Test("Forbidden stops the key, for those that wait and those that come; a new key begins anew")
  func stopped() {
    var rig = PoolRig()
    rig.up(rig.connected[0])
    let pushes = (0..<3).map { _ in rig.submit() }
    rig.answer(rig.sent[0], 403, "Forbidden")
    #expect(pushes.allSatisfy { rig.outcome($0) == .rejected(reason: "Forbidden") })
    #expect(rig.notes.contains(.alarm("Forbidden")))
    let next = rig.submit()
    #expect(rig.outcome(next) == .rejected(reason: "Forbidden"))
    #expect(rig.sent.count == 1)
    #expect(rig.connected.count == 1)
    rig.run { $0.replaceKey(now: $1) }
    #expect(rig.connected.count == 2)
    rig.up(rig.connected[1])
    let anew = rig.submit()
    rig.answer(rig.sent[1], 200)
    #expect(rig.outcome(anew) == .accepted)
  }

  @Test("a push that is to be retried when its key stops is not")
  func stoppedWhileRetrying() {
    var (rig, _) = PoolRig.proven()
    let pushes = (0..<2).map { _ in rig.submit() }
    rig.answer(rig.sent[0], 403, "Forbidden")
    rig.reset(rig.sent[1], refused: true)
    #expect(pushes.allSatisfy { rig.outcome($0) == .rejected(reason: "Forbidden") })
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

  @Test("BadDeviceToken and DeviceTokenNotForTopic are told apart")
  func badTokens() {
    var (rig, _) = PoolRig.proven()
    let bad = rig.submit()
    let wrong = rig.submit()
    rig.answer(rig.sent[0], 400, "BadDeviceToken")
    rig.answer(rig.sent[1], 400, "DeviceTokenNotForTopic")
    #expect(rig.results[bad] == .badDeviceToken)
    #expect(rig.outcome(wrong) == .rejected(reason: "DeviceTokenNotForTopic"))
  }
}
