import CallCore
import Testing

/// Rules of users in their shard: stored before the reply, kept by the next owner.
@Suite struct UserRulesTests {
  private let bob = UserKey(app: Bench.app, user: "bob")
  private static let toCarol = UserRules(always: UserRules.Forward(users: ["carol"]))

  private func written(_ bench: inout Bench, _ rules: UserRules) -> Reply? {
    #expect(bench.say(.rules(.write(rules)), device: "b1") == nil)
    bench.answerStores()
    for case .reply(_, _, let reply) in bench.take() { return reply }
    return nil
  }

  private func read(_ bench: inout Bench) -> UserRules? {
    guard case .rules(let rules) = bench.say(.rules(.read), device: "b1") else { return nil }
    return rules
  }

  private func stores(_ bench: Bench) -> [(UserKey, UserRules?, UInt64)] {
    bench.effects.compactMap {
      if case .storeRules(let user, let rules, let token) = $0 { (user, rules, token) } else { nil }
    }
  }

  @Test func whoHasNoRulesGetsEmptyOnes() {
    var bench = Bench()
    #expect(read(&bench) == UserRules())
    #expect(UserRules().isEmpty)
  }

  @Test func theReplyComesWhenTheStoreHasThem() {
    var bench = Bench()
    bench.now = Timestamp(microseconds: 1_000_000_123_456)
    #expect(bench.say(.rules(.write(Self.toCarol)), device: "b1") == nil)
    var kept = Self.toCarol
    // Whole milliseconds, as on the wire.
    kept.changedAt = Timestamp(microseconds: 1_000_000_123_000)
    let store = stores(bench)
    #expect(store.count == 1 && store.first?.0 == bob && store.first?.1 == kept)
    // Until then the former ones hold.
    #expect(read(&bench) == UserRules())
    bench.answerStores()
    #expect(bench.replies.last == .rules(kept))
    #expect(read(&bench) == kept)
  }

  @Test func whatTheStoreDoesNotTakeChangesNothing() {
    var bench = Bench()
    let former = written(&bench, Self.toCarol)
    let other = UserRules(onBusy: UserRules.Forward(users: ["dave"]))
    #expect(bench.say(.rules(.write(other)), device: "b1") == nil)
    let token = stores(bench).map(\.2)
    #expect(token.count == 1)
    bench.run { $0.registrationStored(token: token[0], ok: false, now: $1, into: &$2) }
    #expect(bench.replies.compactMap(\.error) == [.tryAgain])
    #expect(read(&bench).map { .rules($0) } == former)
  }

  @Test func theLastOneWinsAndOutlivesTheDevices() {
    var bench = Bench()
    bench.attach("b1")
    _ = written(&bench, Self.toCarol)
    _ = written(&bench, UserRules(firstDevices: ["b1"], firstSeconds: 3))
    bench.close("b1", graceful: true)
    #expect(read(&bench)?.firstDevices == ["b1"])
    #expect(read(&bench)?.always == nil)
  }

  @Test func emptyRulesRemoveThemAndTheUser() {
    var bench = Bench()
    _ = written(&bench, Self.toCarol)
    // Without device and call, it is kept for its rules alone.
    #expect(bench.shard.inspect(user: bob) != nil)
    var empty = UserRules()
    empty.noAnswerSeconds = 99
    #expect(bench.say(.rules(.write(empty)), device: "b1") == nil)
    #expect(stores(bench).first?.1 == nil)
    bench.answerStores()
    #expect(bench.replies == [.rules(UserRules())])
    #expect(bench.shard.inspect(user: bob) == nil)
  }

  @Test func aRetransmissionWaitsForTheSameReply() {
    var bench = Bench()
    #expect(bench.say(.rules(.write(Self.toCarol)), device: "b1") == nil)
    #expect(bench.say(.rules(.write(Self.toCarol)), device: "b1", again: true) == nil)
    #expect(stores(bench).count == 1)
  }

  @Test func tooManyWritesAreRefused() {
    var bench = Bench(limits: .with { $0.registrationsWaiting = 1 })
    #expect(bench.say(.rules(.write(Self.toCarol)), device: "b1") == nil)
    #expect(bench.say(.rules(.write(Self.toCarol)), device: "b1")?.error == .tryAgain)
    bench.answerStores()
    #expect(bench.say(.rules(.write(Self.toCarol)), device: "b1") == nil)
  }

  @Test func theNextOwnerHasThem() {
    var bench = Bench(
      shard: ShardMachine(shard: 0, epoch: 2, limits: CallLimits()), now: Bench().now)
    bench.restore(Self.toCarol, of: "bob")
    bench.begin()
    #expect(read(&bench) == Self.toCarol)
    // They are no devices: nobody is listed.
    var list = Shortlist<UserSummary>(countMax: 10)
    bench.shard.directory.add(usersMatching: ListFilter(), to: &list)
    #expect(list.items.isEmpty)
    // They decide about calls.
    bench.place()
    #expect(bench.journal.contains { if case .diverted = $0.change { true } else { false } })
  }

  // MARK: What is refused

  @Test func whatIsNotValidIsRefused() {
    func forward(_ count: Int) -> UserRules.Forward {
      UserRules.Forward(users: (0..<count).map { "u\($0)" })
    }
    func devices(_ count: Int) -> [DeviceID] { (0..<count).map { DeviceID("d\($0)") } }
    func except(_ count: Int) -> UserRules.DoNotDisturb {
      UserRules.DoNotDisturb(except: (0..<count).map { "u\($0)" })
    }
    let good: [UserRules] = [
      UserRules(always: forward(10)), UserRules(doNotDisturb: except(50)),
      UserRules(firstDevices: devices(10)), UserRules(noAnswerSeconds: 5, firstSeconds: 3),
      UserRules(noAnswerSeconds: 120, firstSeconds: 60), UserRules(doNotDisturb: except(0)),
    ]
    for rules in good { #expect(throws: Never.self) { try rules.check(of: "bob") } }
    let bad: [UserRules] = [
      UserRules(always: forward(0)), UserRules(onBusy: forward(11)),
      UserRules(onNoAnswer: UserRules.Forward(users: ["a\u{0}b"])),
      UserRules(onUnreachable: UserRules.Forward(users: ["carol", "bob"])),
      UserRules(always: UserRules.Forward(users: ["carol", "carol"])),
      UserRules(doNotDisturb: except(51)), UserRules(firstDevices: devices(11)),
      UserRules(firstDevices: [""]), UserRules(noAnswerSeconds: 4),
      UserRules(noAnswerSeconds: 121), UserRules(firstSeconds: 2), UserRules(firstSeconds: 61),
    ]
    var bench = Bench()
    for rules in bad {
      #expect(bench.say(.rules(.write(rules)), device: "b1")?.error == .invalidRules, "\(rules)")
    }
    #expect(stores(bench).isEmpty)
  }

  @Test("an end of do not disturb in seconds, or past, is refused") func endsInThePast() {
    var bench = Bench()
    func write(_ until: Timestamp) -> Reply? {
      bench.say(.rules(.write(UserRules(doNotDisturb: .init(until: until)))), device: "b1")
    }
    bench.now = Timestamp(microseconds: 1_800_000_000_000_000)
    // The number of seconds, read as milliseconds.
    let refused = write(Timestamp(microseconds: 1_800_003_600_000))
    #expect(refused?.error == .invalidRules && refused?.message?.contains("milliseconds") == true)
    #expect(write(bench.now + .seconds(-61))?.error == .invalidRules)
    #expect(stores(bench).isEmpty)
    // A command may be repeated, and clocks differ.
    for seconds: Int64 in [-59, 3600] {
      #expect(write(bench.now + .seconds(seconds))?.error == nil)
    }
  }

  /// Names that are equal by Unicode's rules and differ in their bytes are different users.
  @Test func usersAreComparedByTheirBytes() {
    let rules = UserRules(always: UserRules.Forward(users: ["u\u{e9}", "ue\u{301}"]))
    #expect(throws: Never.self) { try rules.check(of: "bob") }
    #expect(throws: CallError.self) { try rules.check(of: "u\u{e9}") }
    let other = UserRules(always: UserRules.Forward(users: ["u\u{e9}"]))
    #expect(throws: Never.self) { try other.check(of: "ue\u{301}") }
  }

  @Test func nobodyElsesRulesAreTouched() {
    var bench = Bench()
    _ = written(&bench, Self.toCarol)
    let carol = bench.say(.rules(.read), user: "carol", device: "c1", callee: "carol")
    #expect(carol == .rules(UserRules()))
  }
}
