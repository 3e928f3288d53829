import CallCore
import Testing

/// R26: a side of an answered call is handed over to another user. Alice has called bob; carol, dave and erin are in other
/// shards.
@Suite struct TransferTests {
  typealias Bench = DivertingBench

  /// A side may stay away for 5 s.
  private static let shortGrace = CallLimits.with { $0.resumeGraceAnswered = .seconds(5) }

  /// Alice and bob talk. The others' first devices are attached.
  static func talking(
    _ others: String..., limits: CallLimits = CallLimits(), subscriptions: Subscriptions = []
  ) -> Bench {
    var bench = Bench(owner: CallCoreTests.Bench(limits: limits), guests: CallCoreTests.Bench())
    bench.subscriptions = subscriptions
    bench.owner.shard.storedParts = .history
    bench.owner.attach("b1", "b2")
    bench.place()
    bench.asBob(.answer(description: "answer"))
    bench.asBob(.connected)
    bench.asAlice(.connected)
    bench.acknowledgeAll()
    for user in others { bench.attach(user, "1") }
    return bench
  }

  static let dave = Party(user: "dave", device: "1", deviceName: "dave's 1")

  /// Bob hands his side over to dave, whose devices ring.
  static func handingOver(_ devices: String..., limits: CallLimits = CallLimits()) -> Bench {
    var bench = talking(limits: limits)
    for device in devices { bench.attach("dave", device) }
    bench.asBob(.handOver(to: "dave"))
    return bench
  }

  // MARK: Blind

  @Test("R26 R27 to one device: it waits for no first devices of its user") func notTheFirstDevice()
  {
    var bench = Self.talking()
    for device in ["1", "2"] { bench.attach("dave", device) }
    bench.guests.set(UserRules(firstDevices: ["1"]), of: "dave")
    bench.asBob(.transfer(TransferRequest(to: "dave", device: "2")))
    #expect(bench.invites("dave", "2").count == 1 && bench.invites("dave", "1").isEmpty)
    #expect(bench.say(.answer(description: "offer"), "dave", "2")?.won == true)
  }

  @Test(
    "R26 R15 who only answers to hand the call over need not connect", arguments: [true, false])
  func beforeTheyConnect(isTaken: Bool) {
    var bench = Bench()
    bench.owner.attach("b1")
    bench.place()
    bench.asBob(.answer(description: "answer"))
    bench.attach("dave", "1")
    bench.pass(.seconds(1))
    bench.asBob(.handOver(to: "dave"))
    bench.owner.say(.sessionClosed(graceful: true), device: "b1")
    bench.pass(.seconds(20))
    #expect(bench.owner.ends.isEmpty && bench.stops("dave", "1").isEmpty)
    if isTaken {
      #expect(bench.say(.answer(description: "offer"), "dave", "1")?.won == true)
    } else {
      bench.say(.decline(.everywhere), "dave", "1")
    }
    // Both sides have the whole time to connect from then on.
    bench.pass(.milliseconds(14_900))
    #expect(bench.owner.ends.isEmpty)
    bench.pass(.milliseconds(100))
    #expect(bench.owner.ends.map(\.reason) == [.failed])
  }

  @Test("R26 meanwhile the user's other devices see the side where it was") func meanwhile() {
    var bench = Self.handingOver("1")
    let state = bench.owner.state("b9")
    #expect(state?.reason == .answeredElsewhere)
    #expect(state?.by == .b1)
  }

  @Test("R26 the callee's side: the other user has the call under its id")
  func ofTheCallee() throws {
    var bench = Self.talking()
    for device in ["1", "2"] { bench.attach("dave", device) }
    #expect(bench.asBob(.handOver(to: "dave"))?.state?.phase == .answered)
    let invite = try #require(bench.invites("dave", "1").first)
    #expect(invite.caller == .alice1, "who stays")
    #expect(invite.transferredBy == .b1)
    #expect(invite.description.isEmpty && invite.signals.isEmpty)
    #expect(bench.deliveries("dave", "1").map(\.callee) == ["bob"], "the call's address")
    #expect(bench.say(.alerting, "dave", "1")?.state?.phase == .ringing)
    #expect(bench.toBob() == [.transfer(TransferNews(to: "dave", number: 1, by: Self.dave))])
    #expect(bench.toAliceSince().isEmpty, "she learns of it when it is done")
    bench.asAlice(.signal(.information, body: "still here"))
    #expect(bench.toBob().count == 2, "both talk on")
    #expect(bench.say(.answer(description: "offer 2"), "dave", "1")?.won == true)
    #expect(bench.bobsStops() == [Stop(reason: .transferred, by: Self.dave)])
    let moved = Delivery.Event.moved(Moved(to: Self.dave, description: "offer 2", number: 1))
    #expect(bench.toAliceSince() == [moved])
    #expect(bench.stops("dave", "2") == [Stop(reason: .answeredElsewhere, by: Self.dave)])
    bench.asAlice(.signal(.description, body: "answer 2"))
    #expect(bench.signals("dave", "1").map(\.body) == ["answer 2"])
    bench.say(.signal(.candidate, body: "c"), "dave", "1")
    #expect(bench.toAliceSince().signals.map(\.body) == ["c"])
    bench.say(.connected, "dave", "1")
    bench.asAlice(.hangUp)
    #expect(bench.stops("dave", "1").map(\.reason) == [.hungUp])
    #expect(bench.bobsStops().count == 1)
    #expect(bench.owner.ends.map(\.reason) == [.hungUp])
  }

  @Test(
    "R26 R27 back to the callee: who attaches meanwhile rings by its rules",
    arguments: [true, false])
  func backToTheCallee(isSilent: Bool) {
    var bench = Bench()
    bench.attach("carol", "1")
    bench.place(to: "carol")
    bench.talk("carol")
    if isSilent { bench.owner.set(UserRules(doNotDisturb: .init()), of: "bob") }
    // Bob's devices are not known yet.
    bench.hold()
    bench.say(.handOver(to: "bob"), "carol", "1")
    bench.owner.attach("b1")
    bench.pump()
    #expect(bench.invitesOfBob("b1").isEmpty, "his shard has not said that he takes it")
    bench.release()
    bench.pass(.seconds(2))
    #expect(bench.invitesOfBob("b1").isEmpty == isSilent)
    #expect(bench.transferEnds.map(\.reason) == (isSilent ? [.busy] : []))
  }

  @Test("R26 R27 an answer that comes late from the first ringing says nothing about a transfer")
  func lateAnswer() throws {
    var bench = Bench()
    for user in ["carol", "dave"] { bench.attach(user, "1") }
    bench.guests.set(UserRules(doNotDisturb: .init(except: ["alice"])), of: "dave")
    // Dave's shard is away. It has both questions when it is back, and answers the older one first.
    bench.hold()
    func visit(_ user: String, _ question: VisitRequest) throws -> VisitAnswer {
      let answer = bench.visit(UserKey(app: CallCoreTests.Bench.app, user: user), question)
      return try #require(answer)
    }
    bench.place(to: "carol", "dave")
    let ofCarol = try #require(bench.asked.first { $0.user == "carol" })
    bench.hear("carol", try visit("carol", ofCarol.1))
    bench.talk("carol")
    bench.say(.handOver(to: "dave"), "carol", "1")
    let questions = bench.asked.filter { $0.user == "dave" }.map(\.1)
    #expect(questions.map(\.round) == [0, 1])
    #expect(questions.map(\.caller) == ["alice", "carol"])
    for question in questions {
      #expect(bench.transferEnds.isEmpty)
      let answer = try visit("dave", question)
      #expect(answer.isBusy == (question.caller == "carol"))
      bench.hear("dave", answer, to: question)
      #expect(bench.invites("dave", "1").isEmpty, "his rules are against calls of carol")
    }
    #expect(bench.transferEnds.map(\.reason) == [.busy])
  }

  @Test("R26 the caller's side: who answers has placed the call from then on") func ofTheCaller() {
    var bench = Self.talking("dave")
    #expect(bench.asAlice(.handOver(to: "dave"))?.state?.phase == .answered)
    #expect(bench.invites("dave", "1").map(\.caller) == [.b1])
    #expect(bench.invites("dave", "1").map(\.transferredBy) == [.alice1])
    bench.say(.signal(.candidate, body: "early"), "dave", "1")
    #expect(bench.toBob().isEmpty)
    let reply = bench.say(.answer(description: "offer 2"), "dave", "1")
    #expect(reply?.won == true && reply?.state?.by == .b1, "its edge sees which side")
    #expect(bench.toAliceSince() == [.stop(Stop(reason: .transferred, by: Self.dave))])
    #expect(bench.toBob().first == .moved(Moved(to: Self.dave, description: "offer 2", number: 1)))
    #expect(bench.toBob().signals.map(\.body) == ["early"])
    #expect(bench.say(.answer(description: "offer 2"), "dave", "1")?.won == true, "R9")
    bench.asBob(.signal(.description, body: "answer 2"))
    #expect(bench.signals("dave", "1").map(\.body) == ["answer 2"])
    bench.say(.signal(.candidate, body: "late"), "dave", "1")
    #expect(bench.toBob().signals.map(\.body) == ["early", "late"])
    #expect(bench.asAlice(.query)?.state?.reason == .transferred)
    bench.say(.hangUp, "dave", "1")
    #expect(bench.owner.ends.map(\.by?.user) == ["dave"])
    #expect(bench.bobsStops().map(\.reason) == [.hungUp])
  }

  @Test(
    "R9 R26 the reply to an answer is lost with its session: the caller's side is where it is repeated"
  )
  func answeredAgainAfterBreak() {
    var bench = Self.talking("dave")
    bench.asAlice(.handOver(to: "dave"))
    #expect(bench.say(.answer(description: "offer 2"), "dave", "1")?.won == true)
    bench.leave("dave", "1")
    bench.attach("dave", "1", generation: 1)
    let again = bench.say(.answer(description: "offer 2"), "dave", "1", generation: 1)
    #expect(again?.won == true)
    bench.asBob(.signal(.description, body: "answer 2"))
    let events = bench.deliveries("dave", "1", generation: 1).map(\.event)
    #expect(events.signals.map(\.body) == ["answer 2"])
    bench.asBob(.hangUp)
    #expect(bench.stops("dave", "1", generation: 1).map(\.reason) == [.hungUp])
  }

  @Test("R9 R26 a resume comes late from a former session of who took the caller's side")
  func lateResumeOfTaker() {
    var bench = Self.talking("dave")
    bench.asAlice(.handOver(to: "dave"))
    let said: [(CallVerb, Int64)] = [(.answer(description: "offer 2"), 2), (.resume, 1)]
    for (verb, attached) in said {
      bench.owner.say(
        .call(Bench.id, verb), user: "dave", device: "1",
        session: Bench.session("dave", "1", UInt64(attached)),
        attachedAt: Timestamp(microseconds: attached * 1_000_000))
    }
    bench.asBob(.signal(.description, body: "answer 2"))
    let events = bench.deliveries("dave", "1", generation: 2).map(\.event)
    #expect(events.signals.map(\.body) == ["answer 2"])
  }

  @Test(
    "R26 nobody takes it: the call is as before, and the transferor learns why",
    arguments: [EndReason.declined, .busy, .unanswered, .unreachable, .cancelled])
  func returns(reason: EndReason) {
    var bench = Self.talking()
    if reason != .unreachable { bench.attach("dave", "1") }
    bench.asBob(.handOver(to: "dave"))
    switch reason {
    case .declined: bench.say(.decline(.everywhere), "dave", "1")
    case .busy: bench.say(.busy, "dave", "1")
    case .unanswered: bench.pass(.seconds(30))
    case .cancelled: #expect(bench.asBob(.cancelTransfer)?.state?.phase == .answered)
    default: break
    }
    #expect(bench.transferEnds.map(\.reason) == [reason])
    let news = bench.toBob().compactMap { if case .transfer(let news) = $0 { news } else { nil } }
    let by = reason == .declined || reason == .busy ? Self.dave : nil
    let expected = TransferNews(to: "dave", number: 1, reason: reason, by: by)
    #expect(Set(news.map(\.reason)) == (reason == .cancelled ? [] : [reason]))
    if reason != .cancelled { #expect(news.allSatisfy { $0 == expected }) }
    let missed = Stop(reason: reason, by: reason == .cancelled ? .b1 : nil, missed: true)
    #expect(
      bench.stops("dave", "1") == (reason == .unanswered || reason == .cancelled ? [missed] : []))
    #expect(
      bench.owner.ends.isEmpty && bench.toAliceSince().isEmpty && bench.bobsStops().isEmpty)
    bench.asAlice(.signal(.information, body: "hello again"))
    #expect(bench.toBob().signals.map(\.body) == ["hello again"])
    #expect(bench.say(.answer(description: ""), "dave", "1")?.won != true, "too late")
    // It can be tried again, and the device rings again.
    bench.attach("dave", "1")
    bench.asBob(.handOver(to: "dave"))
    #expect(bench.say(.answer(description: "offer 3"), "dave", "1")?.won == true)
    #expect(bench.toAliceSince().contains { if case .moved = $0 { true } else { false } })
  }

  @Test("R26 a device rings once more, also one that handed it over") func ringsOnceMore() {
    var bench = Self.handingOver("1")
    bench.say(.decline(.everywhere), "dave", "1")
    bench.asBob(.handOver(to: "dave"))
    #expect(bench.invites("dave", "1").count == 2)
    #expect(bench.say(.answer(description: "offer 2"), "dave", "1")?.won == true)
    // And back.
    #expect(bench.say(.handOver(to: "bob"), "dave", "1")?.state?.phase == .answered)
    for device in ["b1", "b2"] {
      let invites = bench.invitesOfBob(device)
      #expect(invites.count == 2 && invites.last?.transferredBy == Self.dave, "\(device)")
    }
    #expect(bench.asBob(.answer(description: "offer 3"))?.won == true)
    #expect(bench.stops("dave", "1").last == Stop(reason: .transferred, by: .b1))
  }

  @Test("a transfer rings for its own time, however long the call was to ring") func ringTimeout() {
    var bench = Bench()
    bench.owner.attach("b1")
    bench.attach("dave", "1")
    bench.place(ring: 180)
    bench.asBob(.answer(description: "answer"))
    bench.asBob(.connected)
    bench.asAlice(.connected)
    bench.asBob(.handOver(to: "dave"))
    let end = bench.owner.now + .seconds(30)
    #expect(bench.invites("dave", "1").map(\.deadline) == [end])
    bench.pass(.seconds(30))
    #expect(bench.transferEnds.map(\.reason) == [.unanswered])
  }

  @Test("R26 the call ends meanwhile: who rang missed a call") func endsMeanwhile() {
    var bench = Self.handingOver("1")
    bench.asAlice(.hangUp)
    #expect(bench.stops("dave", "1") == [Stop(reason: .cancelled, by: .alice1, missed: true)])
    #expect(bench.bobsStops().map(\.reason) == [.hungUp])
    #expect(bench.say(.answer(description: ""), "dave", "1")?.won == false)
    #expect(bench.owner.ends.count == 1)
  }

  @Test("R1 two answer a transfer at once: one has the call") func twoAtOnce() {
    var bench = Self.handingOver("1", "2")
    #expect(bench.say(.answer(description: "1"), "dave", "1")?.won == true)
    #expect(bench.say(.answer(description: "2"), "dave", "2")?.won == false)
    #expect(bench.moves.count == 1)
  }

  @Test(
    "R26 who transfers is gone for good: the other takes it, or it ends",
    arguments: [true, false])
  func transferorIsGone(isTaken: Bool) {
    var bench = Self.handingOver("1", limits: Self.shortGrace)
    bench.owner.close("b1")
    bench.pass(.seconds(20))
    #expect(bench.owner.ends.isEmpty)
    if isTaken { #expect(bench.say(.answer(description: ""), "dave", "1")?.won == true) }
    bench.pass(.seconds(isTaken ? 1 : 11))
    #expect(bench.transferEnds.map(\.reason) == (isTaken ? [] : [.unanswered]))
    #expect(bench.owner.ends.map(\.reason) == (isTaken ? [] : [.hungUp]))
  }

  @Test("a push of the first ringing that was due is not due for a transfer") func oldPushes() {
    var bench = Bench()
    bench.owner.attach("b1")
    // Its session does not acknowledge, so it is to be pushed after 2 s.
    bench.owner.enrol("b2", voip: "b2")
    bench.owner.attach("b2")
    bench.attach("dave", "1")
    bench.place()
    bench.asBob(.answer(description: ""))
    bench.pass(.seconds(3))
    bench.asBob(.handOver(to: "dave"))
    bench.pass(.seconds(3))
    #expect(bench.owner.faults.isEmpty && bench.transferEnds.isEmpty)
    #expect(!bench.pushes.contains { $0.device == "b2" && $0.purpose == .ring })
  }

  @Test("a phone that a transfer wakes is pushed, and cleaned up") func sleepingPhone() {
    var bench = Self.talking()
    bench.register("dave", "1")
    bench.asBob(.handOver(to: "dave"))
    bench.pass(.seconds(3))
    #expect(bench.pushes.map(\.purpose) == [.ring])
    #expect(bench.pushes.map(\.caller.user) == ["alice"])
    bench.asBob(.cancelTransfer)
    #expect(bench.pushes.map(\.purpose) == [.ring, .missed])
    bench.asBob(.handOver(to: "dave"))
    // The clean-up is repeated once the user's shard has named the phone anew; the queue takes it once.
    #expect(bench.pushes.last?.purpose == .ring)
    #expect(Set(bench.pushes.map(\.id)).count == 3, "the queue takes both rings")
  }

  @Test("each transfer counts for the rate of its pair of users") func rate() {
    var bench = Self.talking("dave")
    for number in 1...11 {
      bench.asBob(.handOver(to: "dave"))
      bench.asBob(.cancelTransfer)
      bench.acknowledgeAll()
      #expect(bench.invites("dave", "1").count == min(number, 10))
    }
    #expect(bench.transferEnds.last?.reason == .busy)
  }

  @Test("R9 a transfer that is repeated after it has succeeded is no error") func repeatedLate() {
    var bench = Self.handingOver("1")
    bench.say(.answer(description: ""), "dave", "1")
    #expect(bench.asBob(.handOver(to: "dave"))?.state?.reason == .transferred)
    #expect(bench.diversions.count == 1)
  }

  @Test("R9 a transfer repeated after it failed begins no second one") func repeatedInVain() {
    var bench = Self.talking("dave")
    func transfer(_ number: UInt64, to user: String = "dave") -> Reply? {
      let verb = CallVerb.handOver(to: user)
      let reply = bench.owner.say(verb, "b1", number: number)
      bench.pump()
      return reply
    }
    #expect(transfer(77)?.error == nil)
    bench.say(.decline(.everywhere), "dave", "1")
    #expect(transfer(77)?.state?.phase == .answered)
    #expect(bench.diversions.count == 1)
    #expect(transfer(78)?.error == nil)
    #expect(bench.diversions.count == 2, "another attempt")
    bench.say(.decline(.everywhere), "dave", "1")
    bench.pass(.seconds(60))
    #expect(transfer(78)?.error == nil)
    #expect(bench.diversions.count == 3, "an app that was started again counts anew")
    bench.owner.say(.cancelTransfer, "b1", number: 79)
    #expect(transfer(80, to: "erin")?.error == nil)
    #expect(bench.diversions.count == 4)
    bench.owner.say(.cancelTransfer, "b1", number: 81)
    #expect(transfer(78)?.state?.phase == .answered)
    #expect(bench.diversions.count == 4, "repeated behind a further one")
  }

  @Test("R9 a copy of a cancel comes late: the next transfer goes on", arguments: [true, false])
  func cancelledLate(ofCaller: Bool) {
    let (user, device) = ofCaller ? ("alice", "alice1") : ("bob", "b1")
    let again = CallCoreTests.Bench.session(device, 1)
    for isBack in [false, true] {
      var bench = Self.talking("dave")
      func say(_ verb: CallVerb, _ number: UInt64, on session: SessionRef? = nil) -> Reply? {
        let body = Command.Body.call(Bench.id, verb)
        let reply = bench.owner.say(
          body, user: user, device: device, session: session, number: number)
        bench.pump()
        return reply
      }
      _ = say(.handOver(to: "dave"), 1070)
      _ = say(.cancelTransfer, 1071)
      #expect(bench.transferEnds.count == 1)
      if isBack {
        if ofCaller {
          _ = say(.resume, 1072, on: again)
        } else {
          bench.owner.attach("b1", session: again)
        }
      }
      _ = say(.handOver(to: "dave"), 1073, on: isBack ? again : nil)
      #expect(say(.cancelTransfer, 1071)?.state?.phase == .answered)
      #expect(say(.cancelTransfer, 1071, on: isBack ? again : nil)?.error == nil)
      #expect(bench.transferEnds.count == 1)
      #expect(say(.cancelTransfer, 1074, on: isBack ? again : nil)?.error == nil)
      #expect(bench.transferEnds.count == 2)
    }
  }

  @Test("an app that was restarted counts anew, and cancels its transfer")
  func cancelledAfterRestart() {
    var bench = Self.talking("dave")
    bench.owner.say(.handOver(to: "dave"), "b1", number: 1070)
    bench.pump()
    let again = CallCoreTests.Bench.session("b1", 1)
    bench.owner.attach("b1", session: again)
    bench.owner.say(.cancelTransfer, "b1", session: again, number: 3)
    bench.pump()
    #expect(bench.transferEnds.map(\.reason) == [.cancelled])
  }

  @Test("whom earlier transfers rang does not slow down the questions of a later one") func pace() {
    var bench = Self.talking("erin")
    bench.hold()
    bench.asBob(.handOver(to: "dave"))
    let members = (0..<90).map { "member\($0)" }
    bench.hear("dave", VisitAnswer(diverted: .group, to: members))
    bench.asBob(.cancelTransfer)
    bench.release()
    bench.asBob(.handOver(to: "erin"))
    let before = bench.asked.count
    bench.pass(.milliseconds(3500))
    #expect(bench.asked.count - before == 3)
  }

  /// Carol rang in vain, and her edge is silent: the call is transferred to her, and her shard does not know yet where
  /// her device is.
  private static func untold() -> Bench {
    var bench = Bench()
    bench.attach("carol", "1")
    bench.attach("dave", "1")
    bench.place(to: "carol", "dave")
    bench.talk("dave")
    bench.hold()
    bench.asAlice(.handOver(to: "carol"))
    let device = VisitAnswer.Device(id: "1", name: "carol's 1")
    bench.hear("carol", VisitAnswer(devices: [device], isComplete: false))
    return bench
  }

  @Test("a late answer to the first ringing takes no side") func answerOfBefore() {
    var bench = Self.untold()
    #expect(bench.stops("carol", "1").map(\.reason) == [.answeredElsewhere])
    for _ in 1...2 {
      let late = bench.say(.answer(description: "late"), "carol", "1")
      #expect(late?.won == false && late?.state?.phase == .ended)
      #expect(late?.state?.reason == .answeredElsewhere && late?.state?.by == Self.dave)
    }
    #expect(bench.moves.isEmpty && bench.transferEnds.isEmpty, "it rings on")
    bench.release()
    bench.pass(.seconds(2))
    #expect(bench.invites("carol", "1").last?.transferredBy == .alice1)
    #expect(bench.say(.answer(description: "offer"), "carol", "1")?.won == true)
    #expect(bench.moves.map(\.to.user) == ["carol"])
  }

  @Test(
    "R7 what a device says late of the first ringing says nothing of the transfer",
    arguments: [CallVerb.alerting, .decline(.everywhere), .decline(.here), .busy])
  func lateWordOfBefore(verb: CallVerb) {
    var bench = Self.untold()
    #expect(bench.say(verb, "carol", "1")?.state?.reason == .answeredElsewhere)
    bench.release()
    bench.pass(.seconds(2))
    #expect(bench.invites("carol", "1").last?.transferredBy == .alice1)
    #expect(bench.toCaller().allSatisfy { $0.kind != "transfer" }, "nothing alerts its user")
    #expect(bench.transferEnds.isEmpty, "it rings on")
    #expect(bench.say(.answer(description: "offer"), "carol", "1")?.won == true)
  }

  @Test("R10 a new owner does not know of invites: an answer counts") func answerAtNewOwner() {
    var bench = Self.untold()
    bench.owner = bench.owner.takenOver().begun()
    #expect(bench.say(.answer(description: "offer"), "carol", "1")?.won == true)
    #expect(bench.moves.map(\.to.user) == ["carol"])
  }

  @Test("a device that rang for a side and pulls it later is stopped no more") func pulls() {
    var bench = Self.talking()
    for device in ["1", "2"] { bench.attach("dave", device) }
    bench.asAlice(.handOver(to: "dave"))
    bench.say(.answer(description: ""), "dave", "1")
    let pull = PullRequest(from: "1", description: "offer")
    #expect(bench.say(.pull(pull), "dave", "2")?.won == true)
    func sent(_ bench: Bench) -> Int {
      bench.deliveries("dave", "2").count { if case .stop = $0.event { true } else { false } }
    }
    let stops = sent(bench)
    bench.pass(.seconds(4))
    #expect(sent(bench) == stops, "it is not retransmitted")
    bench.say(.hangUp, "dave", "2")
    bench.pass(.seconds(4))
    #expect(bench.owner.ends.map(\.reason) == [.hungUp])
  }

  // MARK: What is refused

  @Test("what cannot be transferred, and by whom") func refused() {
    var bench = Bench()
    bench.owner.attach("b1", "b2")
    bench.attach("dave", "1")
    bench.place()
    let toDave = CallVerb.handOver(to: "dave")
    #expect(bench.asBob(toDave)?.error == .wrongState, "nobody has answered")
    bench.asBob(.answer(description: ""))
    #expect(bench.owner.say(toDave, "b2")?.error == .notParty)
    #expect(bench.say(toDave, "dave", "1")?.error == .unknownCall)
    for user in ["alice", "bob"] {
      #expect(bench.asBob(.handOver(to: user))?.error == .wrongState)
    }
    #expect(bench.asBob(.transfer(TransferRequest(to: "")))?.error == .invalidCallee)
    #expect(bench.asBob(toDave)?.state?.phase == .answered)
    #expect(bench.asBob(toDave)?.state?.phase == .answered, "R9: repeated")
    #expect(bench.asAlice(toDave)?.error == .transferring)
    #expect(bench.asAlice(.cancelTransfer)?.error == .notParty)
    #expect(bench.diversions.count == 1)
    bench.asBob(.hangUp)
    #expect(bench.asBob(toDave)?.error == .wrongState)
  }

  @Test("a call is transferred a limited number of times, and by no earlier version") func limited()
  {
    var bench = Self.talking("dave", limits: .with { $0.movesPerCall = 2 })
    bench.owner.shard.mayTransfer = false
    #expect(bench.asBob(.handOver(to: "dave"))?.error == .unknownCommand)
    #expect(bench.diversions.isEmpty)
    bench.owner.shard.mayTransfer = true
    for _ in 0..<2 {
      #expect(bench.asBob(.handOver(to: "dave"))?.error == nil)
      bench.asBob(.cancelTransfer)
    }
    #expect(bench.asBob(.handOver(to: "dave"))?.error == .tooManyMoves)
  }

  // MARK: Whom it rings

  @Test("the other user's rules and groups hold for a transfer, too") func rules() {
    var bench = Self.talking("carol", "erin")
    bench.hold()
    bench.asBob(.handOver(to: "dave"))
    var sentOn = VisitAnswer()
    (sentOn.diverted, sentOn.to, sentOn.ringSlot) = (.group, ["carol", "erin"], .seconds(10))
    bench.release()
    bench.hear("dave", sentOn)
    #expect(bench.invites("carol", "1").map(\.divertedBy) == ["dave"])
    #expect(bench.invites("erin", "1").isEmpty, "its turn comes later")
    bench.say(.decline(.everywhere), "carol", "1")
    #expect(bench.invites("erin", "1").count == 1)
    #expect(bench.say(.answer(description: ""), "erin", "1")?.won == true)
    #expect(bench.bobsStops().map(\.by?.user) == ["erin"])
  }

  @Test("to one device of the user, no other one rings") func oneDevice() {
    var bench = Self.talking()
    for device in ["1", "2"] { bench.attach("dave", device) }
    bench.asBob(.transfer(TransferRequest(to: "dave", device: "2")))
    bench.pass(.milliseconds(2500))
    #expect(bench.invites("dave", "1").isEmpty && !bench.invites("dave", "2").isEmpty)
    #expect(bench.say(.answer(description: ""), "dave", "1")?.won != true)
    bench.say(.decline(.here), "dave", "2")
    #expect(bench.transferEnds.map(\.reason) == [.declined])
  }
}

extension DivertingBench {
  @discardableResult
  mutating func asBob(_ verb: CallVerb) -> Reply? {
    let reply = owner.say(.call(Self.id, verb), device: "b1")
    pump()
    return reply
  }

  @discardableResult
  mutating func asAlice(_ verb: CallVerb) -> Reply? {
    let reply = owner.caller(.call(Self.id, verb))
    pump()
    return reply
  }

  mutating func hold() { isConnected = false }
  mutating func release() { isConnected = true }

  func events(to session: SessionRef) -> [Delivery.Event] {
    var versions: Set<UInt64> = []
    return (effects + owner.effects).compactMap {
      guard case .deliver(session, let delivery) = $0,
        versions.insert(delivery.version).inserted
      else { return nil }
      return delivery.event
    }
  }

  /// Without retransmissions, and without the invite.
  func toBob() -> [Delivery.Event] {
    events(to: CallCoreTests.Bench.session("b1")).filter {
      switch $0 {
      case .invite, .stop: false
      default: true
      }
    }
  }

  func bobsStops() -> [Stop] { stopsOfBob("b1") }

  /// Since the call was answered, without retransmissions.
  func toAliceSince() -> [Delivery.Event] {
    events(to: CallCoreTests.Bench.session("alice1")).filter {
      switch $0 {
      case .ringing, .answered: false
      default: true
      }
    }
  }

  func signals(_ user: String, _ device: String) -> [Signal] {
    events(to: Self.session(user, device)).signals
  }

  var transferEnds: [TransferEnd] {
    owner.journal.compactMap { if case .transferEnded(let end) = $0.change { end } else { nil } }
  }

  var moves: [MovedFacts] {
    owner.journal.compactMap { if case .moved(let move) = $0.change { move } else { nil } }
  }
}

extension [Delivery.Event] {
  var signals: [Signal] {
    compactMap { if case .signal(let signal) = $0 { signal } else { nil } }
  }
}
