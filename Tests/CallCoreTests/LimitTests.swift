import CallCore
import Testing

/// Each limit is filled, and says so with its own code.
@Suite struct LimitTests {
  @Test func callsPerPairAndMinute() {
    var bench = Bench()
    bench.attach("b1")
    for number in 0..<10 {
      let id = CallID(high: 1, low: UInt64(number))
      #expect(bench.place(id)?.error == nil)
      bench.caller(.call(id, .cancel))
    }
    #expect(bench.place(CallID(high: 1, low: 99))?.error == .tooManyCalls)
    #expect(bench.place(CallID(high: 1, low: 3))?.error == nil, "a repeat is not a new call")
    let other = bench.place(CallID(high: 1, low: 98), user: "carol", device: "c1")
    #expect(other?.error == nil)
    bench.pass(.seconds(61))
    #expect(bench.place(CallID(high: 1, low: 97))?.error == nil)
  }

  @Test func liveCallsPerDevice() {
    var bench = Bench()
    bench.attach("b1")
    for number in 0..<5 {
      bench.place(CallID(high: 1, low: UInt64(number)), user: "u\(number)", device: "d")
    }
    #expect(bench.invites("b1").count == 5)
    let sixth = bench.place(CallID(high: 1, low: 9), user: "u9", device: "d")
    #expect(sixth?.state?.reason == .busy)
  }

  @Test func headersAndDescriptions() {
    var bench = Bench()
    bench.attach("b1")
    func place(_ headers: [CustomHeader], _ description: String = "") -> CallError.Code? {
      bench.say(
        .place(
          PlaceRequest(call: Bench.callID, description: description, headers: headers)),
        user: "alice", device: "alice1")?.error
    }
    let many = (0..<33).map { CustomHeader(name: "n\($0)", value: "v") }
    #expect(place(many) == .headersTooLarge)
    let long = [CustomHeader(name: "n", value: String(repeating: "v", count: 4096))]
    #expect(place(long) == .headersTooLarge)
    #expect(place([], String(repeating: "x", count: 65_537)) == .descriptionTooLarge)
    #expect(place(Array(many.prefix(32)), String(repeating: "x", count: 65_536)) == nil)
  }

  @Test(arguments: [(4, false), (5, true), (180, true), (181, false), (UInt32.max, false)])
  func ringTimeout(seconds: UInt32, accepted: Bool) {
    var bench = Bench()
    bench.attach("b1")
    #expect(bench.place(seconds: seconds)?.error == (accepted ? nil : .invalidRingTimeout))
  }

  @Test func signalsWaiting() {
    var bench = Bench()
    bench.attach("b1")
    bench.place()
    for _ in 0..<128 {
      #expect(bench.caller(.call(Bench.callID, .signal(.candidate, body: "c"))) == .done)
      #expect(bench.say(.call(Bench.callID, .signal(.candidate, body: "c")), device: "b1") == .done)
    }
    #expect(
      bench.caller(.call(Bench.callID, .signal(.candidate, body: "c")))?.error == .tooManySignals)
    #expect(
      bench.say(.call(Bench.callID, .signal(.candidate, body: "c")), device: "b1")?.error
        == .tooManySignals)
  }

  @Test func bytesOfSignalsWaiting() {
    var bench = Bench()
    bench.attach("b1")
    bench.place()
    let body = String(repeating: "c", count: 16_384)
    for _ in 0..<4 {
      #expect(bench.caller(.call(Bench.callID, .signal(.candidate, body: body))) == .done)
      #expect(
        bench.say(.call(Bench.callID, .signal(.candidate, body: body)), device: "b1") == .done)
    }
    #expect(
      bench.caller(.call(Bench.callID, .signal(.candidate, body: "c")))?.error == .tooManySignals)
    #expect(
      bench.say(.call(Bench.callID, .signal(.candidate, body: "c")), device: "b1")?.error
        == .tooManySignals)
  }

  @Test func registrationsWaiting() {
    var limits = CallLimits()
    limits.registrationsWaiting = 2
    var bench = Bench(limits: limits)
    bench.say(.register(RegistrationRequest()), device: "d0")
    bench.say(.register(RegistrationRequest()), device: "d1")
    let stores = bench.take().compactMap {
      if case .store(_, let token) = $0 { token } else { nil as UInt64? }
    }
    #expect(stores.count == 2)
    #expect(bench.say(.register(RegistrationRequest()), device: "d2")?.error == .tryAgain)
    bench.run { $0.registrationStored(token: stores[0], ok: true, now: $1, into: &$2) }
    _ = bench.take()
    #expect(bench.say(.register(RegistrationRequest()), device: "d2")?.error == nil)
  }

  @Test func callsPerShard() {
    var limits = CallLimits()
    limits.callsPerShard = 2
    var bench = Bench(limits: limits)
    bench.attach("b1")
    #expect(bench.place(CallID(high: 1, low: 1))?.error == nil)
    #expect(bench.place(CallID(high: 1, low: 2))?.error == nil)
    #expect(bench.place(CallID(high: 1, low: 3))?.error == .overloaded)
  }

  @Test func theEleventhDeviceReplacesTheLongestUnseen() {
    var bench = Bench()
    for number in 0..<11 {
      let device = "d\(number)"
      bench.now = bench.now + .seconds(1)
      bench.say(.attach(Attach(attachedAt: bench.now)), device: device)
      bench.say(.register(RegistrationRequest()), device: device)
      for effect in bench.take() {
        switch effect {
        case .store(_, let token), .remove(_, _, let token):
          bench.run { $0.registrationStored(token: token, ok: true, now: $1, into: &$2) }
        case .notice(let session, let notice):
          #expect(session == Bench.session("d0"))
          #expect(notice.kind == .deviceRemoved)
          #expect(number == 10)
        case .reply, .deliver, .showOngoing, .showName, .close, .push, .withdrawPushes, .token,
          .tell,
          .releaseToken, .record, .history, .visit, .visitAnswer, .storeRules, .events,
          .deviceEvent:
          break
        }
      }
      for effect in bench.effects {
        if case .reply(_, _, .registered(_, let removed, _)) = effect {
          #expect(removed == (number == 10 ? ["d0"] : []))
        }
      }
      _ = bench.take()
    }
    #expect(bench.shard.counts.registrations == 10)
  }

  @Test func aFailedStoreIsNotARegistration() {
    var bench = Bench()
    bench.attach("b1")
    bench.say(.register(RegistrationRequest()), device: "b1")
    _ = bench.take()
    bench.run { $0.registrationStored(token: 1, ok: false, now: $1, into: &$2) }
    #expect(bench.shard.counts.registrations == 0)
    guard case .reply(_, _, .error(let error)) = bench.effects.first else {
      Issue.record("no reply")
      return
    }
    #expect(error.code == .tryAgain)
  }

  @Test func unregister() {
    var bench = Bench()
    bench.attach("b1")
    bench.say(.register(RegistrationRequest()), device: "b1")
    bench.run { $0.registrationStored(token: 1, ok: true, now: $1, into: &$2) }
    #expect(bench.say(.unregister("b1"), device: "b1") == nil, "not before the store has it")
    bench.run { $0.registrationStored(token: 2, ok: true, now: $1, into: &$2) }
    #expect(bench.shard.counts.registrations == 0)
    #expect(bench.say(.unregister("b1"), device: "b1") == .done, "said twice")
  }

  @Test func registrationsExpire() {
    let user = UserKey(app: Bench.app, user: "bob")
    var shard = ShardMachine(shard: 0, epoch: 1, limits: CallLimits())
    let now = Timestamp(microseconds: 100 * 86_400_000_000)
    func at(_ days: Int64) -> Timestamp {
      Timestamp(microseconds: now.microseconds - days * 86_400_000_000)
    }
    let old = Registration(
      user: user, device: "old", request: RegistrationRequest(), registeredAt: at(91),
      seenAt: at(91))
    let fresh = Registration(
      user: user, device: "new", request: RegistrationRequest(), registeredAt: at(91),
      seenAt: at(89))
    shard.restore([old, fresh])
    var outcome = Outcome()
    shard.begin(now: now, into: &outcome)
    #expect(outcome.effects == [.remove(user, "old", token: 1)])
  }
}
