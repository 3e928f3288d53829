import CallCore
import CallPush
import Testing

@Suite("APNs pool: pushes")
struct APNsPushTests {
  @Test("REFUSED_STREAM: at once elsewhere, and never counted as sent")
  func refused() {
    var (rig, ids) = PoolRig.proven(limits: PoolRig.limits(connections: 2))
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
    var (rig, ids) = PoolRig.proven(limits: PoolRig.limits(connections: 2))
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
        if let id = rig.machine.connectionIDs.first, rig.machine.connection(id)?.isUsable == false {
          rig.up(id)
        }
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

  @Test("a reset other than refused leaves the fate unknown")
  func reset() {
    var (rig, _) = PoolRig.proven()
    let push = rig.submit(urgent: false)
    rig.reset(rig.sent[0], refused: false)
    #expect(rig.notes == [.repeated])
    rig.reset(rig.sent[1], refused: false)
    #expect(rig.outcome(push) == .failed(reason: "the stream was reset", mayHaveArrived: true))
  }

  @Test("no answer to a notice in time: once more elsewhere, then failed")
  func attemptTimeout() {
    var limits = PoolRig.limits(connections: 2)
    limits.quietBeforePing = .seconds(50)
    var (rig, ids) = PoolRig.proven(limits: limits)
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
    var (rig, ids) = PoolRig.proven(limits: PoolRig.limits(connections: 2))
    let first = PushCancellation()
    let push = rig.submit(cancellation: first)
    #expect(rig.sent.count == 1)
    first.cancel()
    rig.lose(ids[0])
    #expect(rig.sent.count == 1)
    let isDoubtful = PushOutcome.failed(reason: "the call is over", mayHaveArrived: true)
    #expect(rig.outcome(push) == isDoubtful, "it was lost with its connection")
    // One that rests after an answer ends at once.
    let third = PushCancellation()
    let resting = rig.submit(cancellation: third)
    rig.answer(rig.sent[1], 500, "InternalServerError")
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

  @Test(
    "a late answer is an answer: the second attempt is not even made, or means nothing any more")
  func lateAnswer() {
    var limits = PoolRig.limits()
    limits.quietBeforePing = .seconds(50)
    limits.drainGrace = .seconds(20)
    var (rig, _) = PoolRig.proven(limits: limits)
    let push = rig.submit()
    rig.pass(.seconds(5))
    #expect(rig.sent.count == 1, "there is no other connection yet")
    rig.answer(rig.sent[0], 200)
    #expect(rig.outcome(push) == .accepted)
    rig.up(rig.connected[1])
    rig.pass(.seconds(1))
    #expect(rig.sent.count == 1)

    var (both, _) = PoolRig.proven(
      limits: {
        var l = limits
        l.connections = 2
        return l
      }())
    let other = both.submit()
    both.pass(.seconds(5))
    #expect(both.sent.count == 2)
    both.answer(both.sent[0], 410, "Unregistered")
    #expect(both.outcome(other) == .tokenGone(at: nil))
    both.answer(both.sent[1], 200)
    #expect(both.outcome(other) == .tokenGone(at: nil))
    #expect(both.notes.contains(.answeredLate(status: 200)))
  }

  @Test("a late answer that would allow a retry leaves the later attempt alone")
  func lateRetry() {
    var limits = PoolRig.limits(connections: 2)
    limits.quietBeforePing = .seconds(50)
    var (rig, _) = PoolRig.proven(limits: limits)
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
    var limits = PoolRig.limits()
    limits.quietBeforePing = .seconds(50)
    var (rig, ids) = PoolRig.proven(limits: limits)
    let stuck = rig.submit()
    rig.pass(.seconds(1))
    _ = rig.submit()
    rig.answer(rig.sent[1], 200)
    rig.pass(.seconds(4))
    #expect(rig.connected == ids)
    #expect(rig.sent.last?.push == stuck && rig.sent.last?.attempt == 2)
  }

  @Test("expired: waiting, resting, under way; on time, and before it began")
  func expiry() {
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

  @Test("the queue is bounded, and its places come back")
  func queueLimit() {
    var rig = PoolRig(limits: PoolRig.limits(queued: 3))
    let pushes = (0..<4).map { _ in rig.submit(for: .seconds(1)) }
    #expect(rig.outcome(pushes[3]) == .failed(reason: "queue full"))
    #expect(rig.notes == [.queueFull])
    rig.pass(.seconds(1))
    #expect(pushes[..<3].allSatisfy { rig.outcome($0) == .expired })
    let next = rig.submit()
    #expect(rig.outcome(next) == nil)
  }

  @Test("a long outage with pushes that come and expire leaves nothing behind")
  func outage() {
    var rig = PoolRig(limits: PoolRig.limits(queued: 50))
    for _ in 0..<2000 {
      _ = rig.submit(for: .milliseconds(200))
      rig.pass(.milliseconds(50))
    }
    rig.pass(.seconds(1))
    #expect(rig.machine.pushesWaiting == 0)
    #expect(rig.machine.queueEntries < 100)
  }

  @Test("rings go before notices")
  func urgentFirst() {
    var rig = PoolRig()
    let notices = (0..<2).map { _ in rig.submit(urgent: false) }
    let rings = (0..<2).map { _ in rig.submit() }
    rig.up(rig.connected[0])
    for _ in 0..<4 { rig.answer(rig.openSends(rig.connected[0])[0], 400, "BadTopic") }
    #expect(rig.sent.map(\.push) == rings + notices)
  }
}
