import CallCore
import Testing

/// Names that Unicode takes for the same, and Swift's `==` with it.
private let twins: [(one: String, other: String)] = [
  ("K", "\u{212a}"), ("Kate", "\u{212a}ate"), ("\u{e9}", "e\u{301}"), ("zo\u{eb}", "zoe\u{308}"),
  // These have as many bytes as each other.
  ("\u{212b}", "A\u{30a}"), ("a-long-name-\u{212b}", "a-long-name-A\u{30a}"),
]

/// Users, devices and apps are equal when their bytes are.
@Suite struct ByteIdentityTests {
  @Test(arguments: twins) func twinsAreTwo(one: String, other: String) {
    #expect(one == other, "these are what the test is about")
    #expect(!one.hasBytes(of: other) && one.hasBytes(of: one) && other.hasBytes(of: other))
    let users = [one, other].map { UserKey(app: "demo", user: $0) }
    #expect(users[0] != users[1] && Set(users).count == 2)
    let apps = [one, other].map { UserKey(app: $0, user: "ann") }
    #expect(apps[0] != apps[1] && Set(apps).count == 2)
    let devices = [DeviceID(one), DeviceID(other)]
    #expect(devices[0] != devices[1] && Set(devices).count == 2)
    let parties = [one, other].map { Party(user: $0, device: "d") }
    #expect(parties[0] != parties[1] && Set(parties).count == 2)
    #expect(UserKey(app: "a", user: "bc") != UserKey(app: "ab", user: "c"))
  }

  @Test func lengthsAroundAWord() {
    for count in 0..<40 {
      let text = String(repeating: "x", count: count)
      #expect(text.hasBytes(of: String(decoding: Array(text.utf8), as: UTF8.self)))
      #expect(!text.hasBytes(of: text + "x"))
      for place in 0..<count {
        var bytes = Array(text.utf8)
        bytes[place] = UInt8(ascii: "y")
        #expect(!text.hasBytes(of: String(decoding: bytes, as: UTF8.self)))
      }
    }
  }

  /// A user whose name was a twin of another's once got that user's calls, answered them and replaced its session.
  @Test(arguments: twins) func callsGoToTheOneOnly(one: String, other: String) {
    var bench = Bench()
    bench.say(.attach(Attach()), user: one, device: "one1", callee: one)
    bench.say(.attach(Attach()), user: other, device: "other1", callee: other)
    let place = Command.Body.place(PlaceRequest(call: Bench.callID))
    bench.say(place, user: "alice", device: "alice1", callee: one)
    #expect(bench.invites("one1").count == 1)
    #expect(bench.invites("other1").isEmpty)
    let answer = Command.Body.call(Bench.callID, .answer())
    #expect(bench.say(answer, user: other, device: "other1", callee: one)?.error == .unknownCall)
    #expect(bench.say(answer, user: other, device: "other1", callee: other)?.error == .unknownCall)
    #expect(bench.say(answer, user: one, device: "one1", callee: one)?.won == true)
  }

  @Test(arguments: twins) func theCallersTwinIsNotTheCaller(one: String, other: String) {
    var bench = Bench.attached("b1")
    bench.say(.place(PlaceRequest(call: Bench.callID)), user: one, device: "phone")
    #expect(
      bench.say(.call(Bench.callID, .cancel), user: other, device: "phone")?.error == .unknownCall)
    #expect(bench.say(.call(Bench.callID, .cancel), user: one, device: "phone")?.error == nil)
  }

  @Test(arguments: twins) func sessionsAreNotReplaced(one: String, other: String) {
    var bench = Bench()
    bench.say(.attach(Attach()), user: one, device: "phone", callee: one)
    bench.say(
      .attach(Attach()), user: other, device: "phone", callee: other,
      session: Bench.session("phone", 7))
    // Neither of two users, nor of two devices of one.
    bench.say(.attach(Attach()), device: one)
    bench.say(.attach(Attach()), device: other)
    #expect(bench.shard.counts.sessions == 4)
    #expect(!bench.effects.contains { if case .close = $0 { true } else { false } })
  }

  @Test(arguments: twins) func registrationsAndTokensAreTwo(one: String, other: String) {
    var bench = Bench()
    bench.enrol("phone", voip: "v1", user: one)
    bench.enrol("phone", voip: "v2", user: other)
    bench.enrol(one, voip: "v3")
    bench.enrol(other, voip: "v4")
    #expect(bench.shard.counts.registrations == 4)
    let users = [one, other].map { UserKey(app: Bench.app, user: $0) }
    #expect(
      users.map { bench.shard.inspect(user: $0)?.devices.map(\.device) } == [["phone"], ["phone"]])
    let owners = users.map { TokenOwner(user: $0, device: "phone", claimedAt: bench.now) }
    #expect(!owners[0].isSame(as: owners[1]))
    bench.say(.unregister(DeviceID(one)), device: one)
    bench.answerStores()
    #expect(bench.registration(one) == nil)
    #expect(bench.registration(other)?.request.voipToken?.token == "v4")
  }

  @Test(arguments: twins) func aPairIsCountedByItself(one: String, other: String) {
    var bench = Bench.attached("b1", limits: .with { $0.callsPerPairPerMinute = 1 })
    #expect(bench.place(CallID(high: 1, low: 1), user: one)?.error == nil)
    #expect(bench.place(CallID(high: 1, low: 2), user: one)?.error == .tooManyCalls)
    #expect(bench.place(CallID(high: 1, low: 3), user: other)?.error == nil)
  }
}
