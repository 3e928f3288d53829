import CallCore
import CallPush
import Testing

@Suite("APNs pool: pushes")
struct APNsPushTests {
  @Test("REFUSED_STREAM: at once elsewhere, and never counted as sent") func refused() {
    var (rig, ids) = PoolRig.proven(connections: 2)
    let push = rig.submit()
    let first = rig.sent[0]
    rig.reset(first, refused: true)
    #expect(rig.sent.last?.push == push)
    #expect(rig.sent.last?.connection == ids.first { $0 != first.connection })
    #expect(!rig.notes.contains(.repeated))
    rig.answer(rig.sent[1], 200)
    #expect(rig.outcome(push) == .accepted)
  }

  @Test(
    "refused by the only connection: there again; again and again: slower, and at last it fails")
  func refusedForEver() {
    var (rig, ids) = PoolRig.proven()
    let push = rig.submit(urgent: false, for: .seconds(60))
    var rounds = 0
    while rig.outcome(push) == nil, rounds < 1000 {
      for sent in rig.openSends(ids[0]) { rig.reset(sent, refused: true) }
      rig.pass(.milliseconds(50))
      rounds += 1
    }
    #expect(rig.outcome(push) == .failed(reason: "refused"))
    #expect(rig.sent.count == 25)
    #expect(rig.now - PoolRig.start > .seconds(10), "it rested in between")
  }

  @Test("a notice lost in flight: once more with the same key, elsewhere; lost again: failed")
  func unknownFate() {
    var (rig, ids) = PoolRig.proven(connections: 2)
    let push = rig.submit(urgent: false)
    #expect(rig.sent[0].connection == ids[0])
    rig.lose(ids[0])
    #expect(rig.sent.count == 2)
    #expect(rig.sent[1].push == push && rig.sent[1].connection == ids[1])
    rig.lose(ids[1])
    #expect(rig.outcome(push) == .failed(reason: "the connection was closed", mayHaveArrived: true))
    #expect(rig.sent.count == 2)
  }

  /// As an APNs that closes each connection after some requests: the next connection works.
  @Test("a ring lost in flight again and again: at once, then ever later, until one arrives")
  func lostOften() {
    var rig = PoolRig()
    let push = rig.submit(for: .seconds(30))
    for round in 0..<5 {
      while rig.sent.count == round {
        rig.upAll()
        rig.pass(.milliseconds(50))
      }
      guard round < 4 else { break }
      rig.lose(rig.sent[round].connection)
      #expect(rig.outcome(push) == nil)
    }
    #expect(rig.now < PoolRig.start + .seconds(10))
    rig.answer(rig.sent[4], 200)
    #expect(rig.outcome(push) == .accepted)
  }

  @Test("a reset other than refused leaves the fate unknown") func reset() {
    var (rig, _) = PoolRig.proven()
    let push = rig.submit(urgent: false)
    rig.reset(rig.sent[0], refused: false)
    #expect(rig.notes == [.repeated])
    rig.reset(rig.sent[1], refused: false)
    #expect(rig.outcome(push) == .failed(reason: "the stream was reset", mayHaveArrived: true))
  }

  @Test("no answer to a notice in time: once more elsewhere, then failed") func attemptTimeout() {
    var (rig, ids) = PoolRig.proven(connections: 2) { $0.quietBeforePing = .seconds(50) }
    let push = rig.submit(urgent: false)
    rig.pass(.milliseconds(4999))
    #expect(rig.sent.count == 1)
    rig.pass(.milliseconds(1))
    #expect(rig.sent.count == 2)
    #expect(rig.sent[1].connection == ids[1])
    #expect(rig.connected.count == 3, "a connection that answers nothing is replaced")
    rig.wait(.seconds(5))
    #expect(rig.outcome(push) == .failed(reason: "no answer", mayHaveArrived: true))
  }

  @Test("its call ends while it waits, or between two attempts: no further one begins")
  func withdrawn() {
    var (rig, ids) = PoolRig.proven(connections: 2)
    let first = PushCancellation()
    let push = rig.submit(cancellation: first)
    #expect(rig.sent.count == 1)
    first.cancel()
    rig.lose(ids[0])
    #expect(rig.sent.count == 1)
    let isDoubtful = PushOutcome.failed(reason: "the call is over", mayHaveArrived: true)
    #expect(rig.outcome(push) == isDoubtful, "it was lost with its connection")
    // One whose attempt is answered ends with it.
    let inFlight = PushCancellation()
    let answered = rig.submit(cancellation: inFlight)
    inFlight.cancel()
    rig.run { $0.dropCancelled(now: $1) }
    rig.answer(rig.sent[1], 429, "TooManyRequests")
    #expect(rig.outcome(answered) == .expired)
    // One that rests after an answer ends at once.
    let third = PushCancellation()
    let resting = rig.submit(cancellation: third)
    rig.answer(rig.sent[2], 500, "InternalServerError")
    third.cancel()
    rig.run { $0.dropCancelled(now: $1) }
    #expect(rig.outcome(resting) == .expired)
    let sent = rig.sent.count
    let second = PushCancellation()
    second.cancel()
    let late = rig.submit(cancellation: second)
    #expect(rig.outcome(late) == .expired)
    #expect(rig.sent.count == sent)
    // Every push has its result, so one that still counted as in flight would make this negative.
    #expect(rig.machine.pushesWaiting == 0)
  }

  /// The cancellation came before the pool had the push, so nothing else takes it out of the queue.
  @Test func aPushThatWasCancelledOnItsWayDoesNotWait() {
    var (rig, _) = PoolRig.proven(inFlight: 1)
    _ = rig.submit()
    _ = rig.submit()
    let cancellation = PushCancellation()
    cancellation.cancel()
    let push = rig.submit(cancellation: cancellation)
    #expect(rig.outcome(push) == .expired)
  }

  @Test(
    "a late answer is an answer: the second attempt is not even made, or means nothing any more")
  func lateAnswer() {
    var (rig, _) = PoolRig.proven {
      $0.quietBeforePing = .seconds(50)
      $0.drainGrace = .seconds(20)
    }
    let push = rig.submit()
    rig.pass(.seconds(5))
    #expect(rig.sent.count == 1, "there is no other connection yet")
    rig.answer(rig.sent[0], 200)
    #expect(rig.outcome(push) == .accepted)
    rig.up(rig.connected[1])
    rig.pass(.seconds(1))
    #expect(rig.sent.count == 1)

    var (both, _) = PoolRig.proven(connections: 2) {
      $0.quietBeforePing = .seconds(50)
      $0.drainGrace = .seconds(20)
    }
    let other = both.submit()
    both.pass(.seconds(5))
    #expect(both.sent.count == 2)
    both.answer(both.sent[0], 410, "Unregistered")
    #expect(both.outcome(other) == .tokenGone(at: nil))
    both.answer(both.sent[1], 200)
    #expect(both.outcome(other) == .tokenGone(at: nil))
    #expect(both.notes.contains(.answeredLate(status: 200)))
  }

  @Test("a late answer that would allow a retry leaves the later attempt alone") func lateRetry() {
    var (rig, _) = PoolRig.proven(connections: 2) { $0.quietBeforePing = .seconds(50) }
    let push = rig.submit()
    rig.pass(.seconds(5))
    rig.answer(rig.sent[0], 503, "ServiceUnavailable")
    #expect(rig.outcome(push) == nil)
    rig.pass(.milliseconds(500))
    #expect(rig.sent.count == 2)
    rig.answer(rig.sent[1], 200)
    #expect(rig.outcome(push) == .accepted)
  }

  @Test("one that is not answered does not condemn a connection that answers others")
  func oneStuck() {
    var (rig, ids) = PoolRig.proven { $0.quietBeforePing = .seconds(50) }
    let stuck = rig.submit()
    rig.pass(.seconds(1))
    rig.submit()
    rig.answer(rig.sent[1], 200)
    rig.pass(.seconds(4))
    #expect(rig.connected == ids)
    #expect(rig.sent.last?.push == stuck && rig.sent.last?.attempt == 2)
  }

  @Test("expired: waiting, resting, under way; on time, and before it began") func expiry() {
    var rig = PoolRig()
    let waiting = rig.submit(for: .seconds(2))
    rig.pass(.milliseconds(1999))
    #expect(rig.outcome(waiting) == nil)
    rig.pass(.milliseconds(1))
    #expect(rig.outcome(waiting) == .expired)

    rig.up(rig.connected[0])
    let flying = rig.submit(for: .seconds(1))
    rig.pass(.seconds(1))
    #expect(rig.outcome(flying) == .failed(reason: "no answer", mayHaveArrived: true))

    var (rested, _) = PoolRig.proven()
    let resting = rested.submit(for: .milliseconds(800))
    rested.answer(rested.sent[0], 429, "TooManyRequests")
    rested.wait(.milliseconds(600))
    rested.answer(rested.sent[1], 429, "TooManyRequests")
    #expect(rested.outcome(resting) == .failed(reason: "TooManyRequests"), "no time for more")

    let late = rig.submit(for: .seconds(0))
    #expect(rig.outcome(late) == .expired)
  }

  @Test("our patience ends before a long deadline does, and says what the trouble was")
  func patience() {
    var rig = PoolRig()
    let push = rig.submit(urgent: false, for: .seconds(3600))
    rig.wait(.milliseconds(29_900))
    #expect(rig.outcome(push) == nil)
    rig.wait(.milliseconds(100))
    #expect(rig.outcome(push) == .failed(reason: "no connection"))
  }

  @Test("the queue is bounded, and its places come back") func queueLimit() {
    var rig = PoolRig(queued: 3)
    let pushes = (0..<4).map { _ in rig.submit(for: .seconds(1)) }
    #expect(rig.outcome(pushes[3]) == .failed(reason: "queue full"))
    #expect(rig.notes == [.queueFull])
    rig.pass(.seconds(1))
    #expect(pushes[..<3].allSatisfy { rig.outcome($0) == .expired })
    let next = rig.submit()
    #expect(rig.outcome(next) == nil)
  }

  @Test("a long outage with pushes that come and expire leaves nothing behind") func outage() {
    var rig = PoolRig(queued: 50)
    for _ in 0..<2000 {
      rig.submit(for: .milliseconds(200))
      rig.pass(.milliseconds(50))
    }
    rig.pass(.seconds(1))
    #expect(rig.machine.pushesWaiting == 0)
    #expect(rig.machine.queueEntries < 100)
  }

  @Test("rings go before notices") func urgentFirst() {
    var rig = PoolRig()
    let notices = (0..<2).map { _ in rig.submit(urgent: false) }
    let rings = (0..<2).map { _ in rig.submit() }
    rig.up(rig.connected[0])
    for _ in 0..<4 { rig.answer(rig.openSends(rig.connected[0])[0], 400, "BadTopic") }
    #expect(rig.sent.map(\.push) == rings + notices)
  }

  @Test("too many requests for one device: it rests, the others do not wait") func resting() {
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

  @Test("5xx twice: a quick try on another connection, later ones on new ones") func serverError() {
    var (rig, ids) = PoolRig.proven(connections: 2)
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

  @Test("a key that is refused for ever: the connections come ever later")
  func keyRefusedForEver() {
    var rig = PoolRig()
    let pushes = (0..<3).map { _ in rig.submit(for: .seconds(60)) }
    while rig.now < PoolRig.start + .seconds(61) {
      rig.upAll()
      rig.answerAll(403, "InvalidProviderToken")
      rig.pass(.milliseconds(50))
    }
    #expect(
      pushes.allSatisfy { rig.outcome($0) == .failed(reason: "InvalidProviderToken") },
      "each has its turn")
    #expect((12...30).contains(rig.connected.count))
  }

  @Test("a new key: those under way are answered, new pushes use new connections") func newKey() {
    var (rig, ids) = PoolRig.proven(connections: 2)
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

  @Test("close: nothing new, what is under way may finish") func close() {
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

  @Test("close: after the grace everything ends") func closeCut() {
    var rig = PoolRig()
    let push = rig.submit()
    rig.run { $0.close(now: $1) }
    rig.wait(.milliseconds(4950))
    #expect(!rig.isFinished)
    rig.wait(.milliseconds(50))
    #expect(rig.outcome(push) == .failed(reason: "closed"))
    #expect(rig.isFinished)
  }
}
