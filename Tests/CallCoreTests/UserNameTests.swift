import CallCore
import Testing

/// Names of users that the app's server has set. The user's shard stores them and notifies the user's sessions of them.
@Suite struct UserNameTests {
  private let bob = UserKey(app: Bench.app, user: "bob")
  private static let toCarol = UserRules(always: UserRules.Forward(users: ["carol"]))

  // MARK: The app's server

  @Test func theStoreHasItBeforeTheReply() {
    var bench = Bench()
    #expect(bench.ask(.name) == .app(.name("")))
    #expect(bench.ask(.setName("Bob Stone")) == nil)
    #expect(bench.storedNames.map(\.?.name) == ["Bob Stone"])
    // Until then there is none.
    #expect(bench.ask(.name) == .app(.name("")))
    bench.answerStores()
    #expect(bench.replies.last == .app(.name("Bob Stone")))
    #expect(bench.ask(.name) == .app(.name("Bob Stone")))
    guard case .app(.user(let user)) = bench.ask(.user) else { return #expect(Bool(false)) }
    #expect(user.name == "Bob Stone")
  }

  @Test func oneThatTheStoreDoesNotTakeChangesNothing() {
    var bench = Bench()
    bench.name("Bob")
    bench.attach("b1")
    bench.effects = []
    #expect(bench.ask(.setName("Robert")) == nil)
    for case .storeRules(_, _, let token) in bench.effects {
      bench.run { $0.registrationStored(token: token, ok: false, now: $1, into: &$2) }
    }
    #expect(bench.replies.last?.error == .tryAgain)
    #expect(bench.namesShown("b1").isEmpty)
    #expect(bench.ask(.name) == .app(.name("Bob")))
  }

  @Test("it is cleaned as the token's is; one of which nothing is left is none") func cleaned() {
    var bench = Bench()
    let long = String(repeating: "a", count: 500)
    for (given, kept) in [
      ("Bob\u{202e}\u{0}\n Stone", "Bob Stone"), (long, String(long.prefix(128))),
      ("\u{7}\u{2028}", ""),
    ] {
      #expect(bench.ask(.setName(given)) == nil)
      #expect(bench.storedNames.last.map { $0?.name ?? "" } == kept)
      bench.answerStores()
      #expect(bench.replies.last == .app(.name(kept)))
    }
  }

  @Test func whoHasNoNameAnyMoreIsForgotten() {
    var bench = Bench()
    bench.name("Bob")
    #expect(bench.shard.inspect(user: bob) != nil)
    bench.name("")
    #expect(bench.shard.inspect(user: bob) == nil)
    #expect(bench.ask(.name) == .app(.name("")))
  }

  @Test("rules and groups keep the name, and it keeps them") func besideRules() {
    var bench = Bench()
    bench.name("Front desk")
    // A device cannot set it.
    var forged = Self.toCarol
    forged.name = "The boss"
    bench.stored(.rules(.write(forged)), device: "b1")
    #expect(bench.ask(.name) == .app(.name("Front desk")))
    bench.stored(.app(.setGroup(CallGroup(users: ["carol"]))))
    bench.name("Desk")
    #expect(bench.ask(.group) == .app(.group(CallGroup(users: ["carol"]))))
    bench.stored(.app(.setGroup(nil)))
    guard case .rules(let rules) = bench.say(.rules(.read), device: "b1") else {
      return #expect(Bool(false))
    }
    #expect(rules.always == Self.toCarol.always)
    // Rules are removed; the name stays.
    bench.stored(.rules(.write(UserRules())), device: "b1")
    #expect(bench.replies.last == .rules(UserRules()))
    #expect(bench.ask(.name) == .app(.name("Desk")))
  }

  @Test("two writes that are under way at once do not undo each other") func bothUnderWay() {
    var bench = Bench()
    #expect(bench.ask(.setName("Bob")) == nil)
    #expect(bench.say(.rules(.write(Self.toCarol)), device: "b1") == nil)
    bench.answerStores()
    #expect(bench.ask(.name) == .app(.name("Bob")))
  }

  @Test func itDecidesNothingAboutCalls() {
    var journals: [[JournalEntry]] = []
    for isNamed in [false, true] {
      var bench = Bench()
      bench.attach("b1", "b2")
      if isNamed { bench.name("Bob") }
      bench.place()
      for device in ["b1", "b2"] { #expect(bench.invites(device).count == 1) }
      journals.append(bench.journal)
    }
    #expect(journals[0] == journals[1])
  }

  // MARK: Sessions

  @Test("the user's sessions are told of a change, once it is stored") func changesAreTold() {
    var bench = Bench()
    bench.attach("b1", "b2", "b3")
    bench.say(.attach(Attach()), user: "carol", device: "c1", callee: "carol")
    bench.close("b3", graceful: true)
    bench.effects = []
    #expect(bench.ask(.setName("Bob")) == nil)
    #expect(bench.namesShown("b1").isEmpty)
    bench.answerStores()
    for device in ["b1", "b2"] { #expect(bench.namesShown(device) == ["Bob"]) }
    for device in ["b3", "c1"] { #expect(bench.namesShown(device).isEmpty) }
    bench.effects = []
    // Nothing has changed.
    bench.name("Bob")
    bench.stored(.rules(.write(Self.toCarol)), device: "b1")
    #expect(bench.namesShown("b1").isEmpty)
    bench.name("")
    #expect(bench.namesShown("b1") == [""])
  }

  @Test("who attaches is told behind the reply, unless it knows") func whoAttaches() {
    var bench = Bench()
    bench.name("Bob")
    bench.effects = []
    bench.say(.attach(Attach(userName: "")), device: "b1")
    let kinds = bench.effects.compactMap { effect -> String? in
      switch effect {
      case .reply: "reply"
      case .showName: "name"
      default: nil
      }
    }
    #expect(kinds == ["reply", "name"])
    #expect(bench.namesShown("b1") == ["Bob"])
    bench.effects = []
    bench.announce("b1", userName: "Bob")
    // Its edge is of a version without names.
    bench.say(.attach(Attach()), device: "b2")
    #expect(bench.namesShown("b1").isEmpty && bench.namesShown("b2").isEmpty)
    // Where there is no name nothing is said.
    var unnamed = Bench()
    unnamed.say(.attach(Attach(userName: "")), device: "b1")
    unnamed.announce("b1", userName: "")
    #expect(unnamed.namesShown("b1").isEmpty)
  }

  /// Edges announce every half a minute. The shard sends a lost name again.
  @Test func anAnnouncementWithAnotherNameIsCorrected() {
    var bench = Bench()
    bench.attach("b1")
    for (name, former) in [("Robert", "Bob"), ("", "Robert")] {
      bench.name(name)
      bench.effects = []
      bench.announce("b1", userName: former)
      #expect(bench.namesShown("b1") == [name])
    }
  }

  @Test("a session that another one has replaced is told nothing") func replaced() {
    var bench = Bench()
    bench.name("Bob")
    let later = Bench.session("b1", 2)
    bench.say(.attach(Attach(attachedAt: bench.now, userName: "Bob")), device: "b1", session: later)
    bench.effects = []
    let attach = Attach(announce: true, attachedAt: bench.now + .seconds(-9), userName: "")
    bench.say(.attach(attach), device: "b1")
    #expect(bench.namesShown("b1").isEmpty)
    bench.name("Robert")
    #expect(bench.namesShown("b1").isEmpty)
    #expect(bench.namesShown(later) == ["Robert"])
  }

  @Test("R10: the next owner has it, and corrects what is announced to it") func nextOwner() {
    var rules = UserRules()
    rules.name = "Bob"
    var bench = Bench(
      shard: ShardMachine(shard: 0, epoch: 2, limits: CallLimits()), now: Bench().now)
    bench.restore(rules, of: "bob")
    bench.announce("b1", userName: "Bo")
    bench.announce("b2", userName: "Bob")
    bench.begin()
    #expect(bench.namesShown("b1") == ["Bob"] && bench.namesShown("b2").isEmpty)
    #expect(bench.ask(.name) == .app(.name("Bob")))
  }

  @Test func namesAreComparedByTheirBytes() {
    var bench = Bench()
    bench.name("Zo\u{eb}")
    bench.say(.attach(Attach(userName: "Zoe\u{308}")), device: "b1")
    #expect(bench.namesShown("b1").map { Array($0.utf8) } == [Array("Zo\u{eb}".utf8)])
  }
}

extension Bench {
  fileprivate mutating func ask(_ request: AppRequest) -> Reply? {
    say(.app(request), device: "")
  }

  /// Says what is to be stored, and the store takes it.
  fileprivate mutating func stored(_ body: Command.Body, device: String = "") {
    say(body, device: device)
    answerStores()
  }

  fileprivate mutating func announce(_ device: String, userName: String) {
    say(.attach(Attach(announce: true, userName: userName)), device: device)
  }

  fileprivate mutating func name(_ name: String) { stored(.app(.setName(name))) }

  fileprivate var storedNames: [UserRules?] {
    effects.compactMap { if case .storeRules(_, let rules, _) = $0 { .some(rules) } else { nil } }
  }

  fileprivate func namesShown(_ session: SessionRef) -> [String] {
    effects.compactMap { if case .showName(session, let name) = $0 { name } else { nil } }
  }

  fileprivate func namesShown(_ device: String) -> [String] { namesShown(Self.session(device)) }
}
