import CallCore
import CallEdge
import Testing

private let start = Timestamp(microseconds: 1_000_000_000)
private let call = CallID(high: 1, low: 1)
private let other = CallID(high: 2, low: 2)

private func place(_ request: UInt64, session: UInt64 = 1, _ call: CallID = call) -> Command {
  command(session: session, request: request, callee: bob, .place(PlaceRequest(call: call)))
}

private func cancel(_ request: UInt64, session: UInt64 = 1, _ call: CallID = call) -> Command {
  command(session: session, request: request, callee: bob, .call(call, .cancel))
}

private func signal(_ request: UInt64) -> Command {
  command(request: request, callee: bob, .call(call, .signal(.candidate, body: "c")))
}

extension CommandOutbox {
  fileprivate mutating func requests() -> [UInt64] { sent().map(\.request) }

  fileprivate mutating func hold(_ command: Command) -> Submission {
    submit(command, awaitsHook: true, now: start)
  }
}

/// Commands that a hook decides about.
@Suite struct HeldCommandsTests {
  /// An outbox that holds a place, and what follows it.
  private func holding(_ commands: Command...) -> CommandOutbox {
    var outbox = outbox()
    #expect(outbox.hold(place(1)) == .accepted)
    for command in commands { #expect(outbox.submit(command, now: start) == .accepted) }
    return outbox
  }

  @Test func aPlaceLeavesWhenItIsDecided() {
    var outbox = holding()
    #expect(outbox.requests() == [] && !outbox.hasUrgent && outbox.pendingCount == 1)
    #expect(outbox.held(session: 1, request: 1) == place(1))
    outbox.release(session: 1, request: 1) {
      $0.body = .place(PlaceRequest(call: call, callerName: "Ann"))
    }
    let sent = outbox.sent()
    #expect(sent.map(\.body) == [.place(PlaceRequest(call: call, callerName: "Ann"))])
    #expect(outbox.held(session: 1, request: 1) == nil)
    // As changed, when it is sent again.
    #expect(outbox.late(start + .seconds(1)).isEmpty)
    #expect(outbox.sent() == sent)
    // A second decision changes nothing.
    outbox.release(session: 1, request: 1, refusal: CallError(.refusedByApp))
    #expect(outbox.requests() == [])
    #expect(outbox.replied(session: 1, request: 1)?.refusal == nil)
  }

  @Test func whatFollowsOfTheCallWaitsInOrder() {
    var outbox = holding(signal(2), signal(3), signal(4))
    _ = outbox.submit(cancel(5), lazily: true, now: start)
    #expect(outbox.requests() == [] && !outbox.hasLazy && outbox.pendingCount == 5)
    outbox.release(session: 1, request: 1)
    let sent = outbox.sent()
    #expect(sent.map(\.request) == [1, 2, 3, 4, 5])
    #expect(sent.map(\.after) == [0, 0, 2, 3, 0])
    // From then on nothing waits.
    _ = outbox.submit(signal(6), now: start)
    #expect(outbox.requests() == [6])
  }

  @Test func otherCallsAndSessionsDoNotWait() {
    var outbox = holding(
      cancel(2, other), cancel(2, session: 2),
      command(request: 3, .register(RegistrationRequest())))
    #expect(outbox.requests().sorted() == [2, 2, 3])
  }

  @Test func aRefusedPlaceAsksWhetherTheCallExists() {
    var outbox = holding(cancel(2))
    let refusal = CallError(.unknownUser, "Nobody.")
    outbox.release(session: 1, request: 1, refusal: refusal)
    let sent = outbox.sent()
    #expect(sent.map(\.body) == [.call(call, .resume), .call(call, .cancel)])
    #expect(sent[0].callee == bob && sent[0].request == 1)
    // Nothing has overtaken a place that is not sent.
    let unknown = Reply.error(CallError(.unknownCall))
    #expect(!outbox.hasOvertaken(session: 1, request: 1, unknown))
    #expect(!outbox.hasOvertaken(session: 1, request: 2, unknown))
    // Nor is it, when it is sent again.
    _ = outbox.late(start + .seconds(1))
    #expect(outbox.sent().first?.body == .call(call, .resume))
    outbox.retransmit { _ in true }
    #expect(outbox.sent().first?.body == .call(call, .resume))
    // The device may repeat it meanwhile.
    #expect(outbox.submit(place(1), now: start) == .repeated)
    let pending = outbox.replied(session: 1, request: 1)
    #expect(pending?.refusal == refusal && pending?.command == place(1))
  }

  @Test func theSameIdCountsOnceAndAmongThoseThatWait() {
    var outbox = outbox { $0.pendingMax = 2 }
    #expect(outbox.hold(place(1)) == .accepted)
    #expect(outbox.hold(place(1)) == .repeated)
    #expect(outbox.hold(place(1, other)) == .conflicting)
    #expect(outbox.hold(place(2, other)) == .accepted)
    #expect(outbox.hold(place(3, CallID(high: 3, low: 3))) == .full)
    #expect(outbox.held(session: 1, request: 3) == nil)
    outbox.release(session: 1, request: 1)
    #expect(outbox.requests() == [1])
  }

  /// Each is asked about, since it may be another call: the first one's decision is not the second one's.
  @Test(arguments: [true, false]) func aSecondPlaceOfTheCallWaitsForItsOwn(first: Bool) {
    var outbox = holding()
    _ = outbox.hold(place(2))
    _ = outbox.submit(cancel(3), now: start)
    outbox.release(session: 1, request: first ? 1 : 2, refusal: CallError(.refusedByApp))
    #expect(outbox.requests() == (first ? [1] : []))
    outbox.release(session: 1, request: first ? 2 : 1)
    let sent = outbox.sent()
    #expect(sent.map(\.request) == (first ? [2, 3] : [1, 2, 3]))
    #expect(sent.first?.body == .place(PlaceRequest(call: call)))
  }

  @Test func heldOnesAreNotSentAgain() {
    var outbox = holding(signal(2))
    for second in Int64(1)...4 {
      #expect(outbox.late(start + .seconds(second)).isEmpty)
      outbox.retransmit { _ in true }
      outbox.retransmit(toShard: ShardHash.shard(of: bob, count: 64)) { _ in true }
      #expect(outbox.requests() == [])
    }
    outbox.release(session: 1, request: 1)
    #expect(outbox.requests() == [1, 2])
  }

  /// A hook whose decision never comes costs the command, as a shard does that never answers.
  @Test func heldOnesAreGivenUp() {
    var outbox = holding()
    _ = outbox.submit(cancel(2), now: start + .milliseconds(4500))
    #expect(outbox.late(start + .seconds(5)) == [place(1)])
    #expect(outbox.requests() == [2])
    #expect(outbox.held(session: 1, request: 1) == nil)
    outbox.release(session: 1, request: 1)
    #expect(outbox.requests() == [])
  }

  /// At once, or by the sweep.
  @Test func thoseOfAnEndedSessionAreDropped() {
    var outbox = holding(cancel(2))
    var swept = outbox
    _ = outbox.hold(place(1, session: 2))
    #expect(outbox.dropHeld(of: 1, call: call) == 2)
    #expect(outbox.dropHeld(of: 1, call: call) == 0)
    #expect(outbox.pendingCount == 1 && outbox.requests() == [])
    outbox.release(session: 2, request: 1)
    #expect(outbox.requests() == [1])
    let resent = swept.sweep(
      now: start + .seconds(1), isLive: { _ in false },
      giveUp: { _ in Issue.record("nobody waits for this") })
    #expect(resent == 0 && swept.pendingCount == 0 && swept.requests() == [])
  }

  /// Whatever is held, decided, given up and dropped: nothing overtakes a place of its call and session, nothing is
  /// sent twice, and nothing stays behind.
  @Test(arguments: 1...100) func atRandom(seed: UInt64) {
    var state = seed
    func random(_ bound: UInt64) -> UInt64 {
      state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
      return (state >> 33) % bound
    }
    struct Key: Hashable {
      var session: UInt64
      var call: CallID
    }
    var outbox = outbox { $0.pendingMax = 1000 }
    var order: [Key: [UInt64]] = [:]
    var undecided: [(key: Key, request: UInt64)] = []
    var gone: Set<UInt64> = []
    var sent: [UInt64: Int] = [:]
    func check() {
      for command in outbox.sent() {
        let key = Key(session: command.session.number, call: command.body.call ?? call)
        sent[command.request, default: 0] += 1
        #expect(!undecided.contains { $0.request == command.request }, "not decided")
        // All before it have left, or never will.
        let before = order[key, default: []].prefix { $0 != command.request }
        #expect(before.allSatisfy { sent[$0] != nil || gone.contains($0) }, "overtaken")
      }
    }
    for request in UInt64(1)...300 {
      let key = Key(session: 1 + random(2), call: random(2) == 0 ? call : other)
      switch random(4) {
      case 0:
        order[key, default: []].append(request)
        undecided.append((key, request))
        #expect(outbox.hold(place(request, session: key.session, key.call)) == .accepted)
      case 1:
        order[key, default: []].append(request)
        let command = cancel(request, session: key.session, key.call)
        #expect(outbox.submit(command, now: start) == .accepted)
      case 2 where !undecided.isEmpty:
        let next = undecided.remove(at: Int(random(UInt64(undecided.count))))
        let refusal = random(2) == 0 ? CallError(.refusedByApp) : nil
        outbox.release(session: next.key.session, request: next.request, refusal: refusal)
      case 3 where !undecided.isEmpty && random(4) == 0:
        // It is answered by something else.
        let next = undecided.remove(at: Int(random(UInt64(undecided.count))))
        gone.insert(next.request)
        #expect(outbox.replied(session: next.key.session, request: next.request) != nil)
      default: break
      }
      check()
    }
    for next in undecided {
      outbox.release(session: next.key.session, request: next.request)
    }
    undecided = []
    check()
    #expect(sent.values.allSatisfy { $0 == 1 })
    #expect(sent.count + gone.count == order.values.reduce(0) { $0 + $1.count })
  }
}
