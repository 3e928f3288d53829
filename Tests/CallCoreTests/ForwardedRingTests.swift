import CallCore
import Testing

/// How long a call rings that goes on to others (R25): as its caller chose, or anew at each of them.
@Suite struct ForwardedRingTests {
  /// No device answers at carol, nor at the users to whom the call goes on from her, each after ten seconds.
  private func bench(ring: UInt32, anew: Bool = false) -> DivertingBench {
    var bench = DivertingBench()
    let users = ["carol", "dave", "erin"]
    for user in users { bench.attach(user) }
    for (user, next) in zip(users, users.dropFirst()) {
      bench.guests.set(UserRules(onNoAnswer: .init(users: [next]), noAnswerSeconds: 10), of: user)
    }
    bench.ringsAnew = anew
    bench.place(to: "carol", ring: ring)
    return bench
  }

  private func deadlines(_ events: [Delivery.Event]) -> [Timestamp] {
    events.compactMap { if case .ringsUntil(let time) = $0 { time } else { nil } }
  }

  private func deadlines(_ bench: DivertingBench) -> [Timestamp] { deadlines(bench.toCaller()) }

  /// The call's shard has no owner for a time.
  private func takeOver(_ bench: inout DivertingBench, after pause: Span) {
    bench.owner = bench.owner.takenOver()
    bench.owner.now = bench.owner.now + pause
    bench.guests.now = bench.guests.now + pause
    bench.owner = bench.owner.begun()
  }

  @Test("a time that the caller chose holds for all of them together") func chosen() {
    var bench = bench(ring: 40)
    let until = bench.owner.now + .seconds(40)
    bench.pass(.seconds(39))
    #expect(bench.diversions.map(\.to) == [["carol"], ["dave"], ["erin"]])
    #expect(bench.diversions.allSatisfy { $0.deadline == until })
    #expect(bench.owner.ends.isEmpty)
    bench.pass(.seconds(1))
    #expect(bench.owner.ends.map(\.reason) == [.unanswered])
    #expect(deadlines(bench).isEmpty, "nothing has changed")
  }

  @Test("the callee rings for less time than its rules say, so that the others have their share")
  func share() {
    var bench = bench(ring: 8)
    for (user, wait) in [("dave", Int64(4000)), ("erin", 2000)] {
      bench.pass(.milliseconds(wait - 100))
      #expect(bench.invites(user).isEmpty)
      bench.pass(.milliseconds(100))
      #expect(bench.invites(user).count == 1)
    }
    bench.pass(.seconds(2))
    #expect(bench.owner.ends.map(\.reason) == [.unanswered])
  }

  @Test(
    "nobody chose a time, or the app lets it ring anew: each has the default time",
    arguments: [(0, false, 2), (8, true, 3)] as [(UInt32, Bool, Int)])
  func anew(ring: UInt32, anew: Bool, changes: Int) {
    var bench = bench(ring: ring, anew: anew)
    bench.pass(.seconds(15))
    #expect(bench.diversions[0].deadline == bench.diversions[0].at + .seconds(30))
    #expect(bench.diversions[1].deadline == bench.diversions[1].at + .seconds(30))
    bench.pass(.seconds(34))
    #expect(bench.owner.ends.isEmpty)
    bench.pass(.seconds(1))
    #expect(bench.owner.ends.map(\.reason) == [.unanswered])
    let told = deadlines(bench).reduce(into: [Timestamp]()) { if $0.last != $1 { $0.append($1) } }
    #expect(told.last == bench.diversions[2].deadline)
    #expect(told.count == changes, "the caller is told each change, and no other")
  }

  @Test("who rings on is told as well") func ringsOn() {
    var bench = DivertingBench.attached("carol", "dave", "erin")
    bench.guests.set(
      UserRules(onNoAnswer: .init(users: ["erin"]), noAnswerSeconds: 10), of: "carol")
    bench.place(to: "carol", "dave")
    bench.pass(.seconds(10))
    let told = deadlines(bench.deliveries("dave").map(\.event))
    #expect(told == [bench.owner.now + .seconds(30)])
    #expect(bench.stops("carol").count == 1)
    #expect(deadlines(bench.deliveries("carol").map(\.event)).isEmpty)
  }

  @Test("its time is over once its shard has an owner again: nobody rings any more") func tooLate()
  {
    var bench = bench(ring: 8)
    takeOver(&bench, after: .seconds(9))
    bench.pump()
    bench.pass(.seconds(1))
    #expect(bench.diversions.map(\.to) == [["carol"]])
    #expect(bench.owner.ends.map(\.reason) == [.unanswered])
  }

  @Test("carol's shard says too late that all her calls go on: it is no call that she has missed")
  func tooLateForRules() throws {
    var bench = DivertingBench()
    bench.register("carol")
    bench.attach("carol", "2")
    bench.guests.set(UserRules(always: .init(users: ["dave"])), of: "carol")
    bench.isConnected = false
    bench.place(to: "carol", ring: 8)
    let question = try #require(bench.asked.last).1
    let answered = bench.visit(UserKey(app: Bench.app, user: "carol"), question)
    let answer = try #require(answered)
    bench.owner.now = bench.owner.now + .seconds(8)
    bench.hear("carol", answer, to: question)
    bench.isConnected = true
    bench.pass(.seconds(10))
    #expect(bench.owner.ends.map(\.reason) == [.unanswered])
    #expect(!bench.joined.contains { $0.user == "carol" } && bench.pushes.isEmpty)
  }

  @Test("a new owner tells the caller again, and knows that a time was chosen") func newOwner() {
    var bench = bench(ring: 0).takenOver()
    bench.caller(.resume)
    #expect(deadlines(bench) == [bench.diversions[0].deadline])
    bench = self.bench(ring: 40).takenOver()
    bench.caller(.resume)
    #expect(deadlines(bench).isEmpty)
    bench.pass(.seconds(12))
    let deadline = bench.diversions[0].deadline
    #expect(bench.diversions.map(\.deadline) == [deadline, deadline])
  }

  @Test("what comes behind it does not wait for it, and an answer makes it void")
  func holdsNothingUp() throws {
    var bench = bench(ring: 0)
    bench.pass(.seconds(10))
    #expect(deadlines(bench).count == 1)
    bench.say(.alerting, "dave")
    bench.say(.answer(), "dave")
    let sent = bench.bob.deliveries(to: "alice1")
    let ringing = try #require(sent.first { $0.event.kind == "ringing" })
    #expect(ringing.after == 0)
    #expect(sent.first { $0.event.kind == "answered" }?.after == ringing.version)
    let count = deadlines(bench).count
    bench.pass(.seconds(10))
    #expect(deadlines(bench).count == count, "it is not sent again")
  }

  private func group(_ seconds: UInt32, ring: UInt32) -> DivertingBench {
    var bench = DivertingBench()
    let users = ["carol", "dave", "erin"]
    bench.owner.set(CallGroup(users: users, order: .inTurn, turnSeconds: seconds), of: "bob")
    for user in users { bench.attach(user) }
    bench.place(ring: ring)
    return bench
  }

  @Test(
    "a group's members in turn share the caller's time",
    arguments: [(10, 60, 10), (20, 30, 10), (60, 24, 8), (10, 9, 5), (5, 5, 5)])
  func inTurn(_ turn: UInt32, _ ring: UInt32, _ each: Int64) {
    var bench = group(turn, ring: ring)
    for (number, user) in ["carol", "dave", "erin"].enumerated() {
      let begins = Int64(number) * each * 1000
      let isRung = begins < ring * 1000
      #expect(bench.invites(user).count == (isRung ? 1 : 0), "\(user)")
      guard isRung, number < 2 else { continue }
      bench.pass(.milliseconds(min(each, Int64(ring) - begins / 1000) * 1000 - 100))
      let next = ["dave", "erin"][number]
      #expect(bench.invites(next).isEmpty)
      bench.pass(.milliseconds(100))
    }
    bench.pass(.seconds(Int64(ring)))
    #expect(bench.owner.ends.map(\.reason) == [.unanswered])
    #expect(bench.owner.ends.map(\.at) == [bench.placedAt + .seconds(Int64(ring))])
  }

  @Test("R10 a member declines while its shard has no owner, and the caller's time is over then")
  func declinedTooLate() {
    var bench = group(10, ring: 20)
    takeOver(&bench, after: .seconds(25))
    // The commands that waited come before what is due.
    bench.say(.decline(.everywhere), "carol")
    bench.pass(.seconds(1))
    #expect(bench.owner.ends.map(\.reason) == [.declined])
    #expect(bench.invites("dave").isEmpty)
  }

  @Test("a turn that is longer than the ring timeout is a whole turn") func longTurn() {
    var bench = group(45, ring: 0)
    bench.pass(.seconds(44))
    #expect(bench.invites("dave").isEmpty)
    #expect(bench.owner.ends.isEmpty)
    bench.pass(.seconds(1))
    #expect(bench.invites("dave").count == 1)
  }
}
