import CallCore
import CallJudge
import CallLoadKit
import CallWire
import Testing

/// A device takes an answered call over, and the reply to that is lost with its edge.
@Suite("The judge and calls that move") struct MoveJudgeTests {
  /// Device 3 answers, device 4 pulls at 12 s, and the caller hangs up at 14 s.
  private struct Course {
    /// Whether device 4 loses its session after it has pulled, until the call is over.
    var isCutOff = true
    /// Whether its edge was killed, as the judge knows.
    var isFaultKnown = true
    var isFormerTold = true
    var isCallerTold = true
    /// The reason in the reply that device 4 gets at last: that the call is over, or that another device has it.
    var repliedReason = EndReason.hungUp
    /// Whether a delivery says so, too.
    var isStoppedAtLast = false
    /// Whether the reply to a command has said before the pull that another device answered.
    var isRefusedBefore = false
    /// Whether the reply to another command says so first.
    var isToldByAnotherReply = false
  }

  private func judged(_ course: Course) throws -> (broken: Set<CorrectnessRule>, fate: CallFate) {
    var call = JudgedCall(attached: [3, 4, 5])
    if course.isFaultKnown { call.outage(.killEdge, from: 12.01, to: 15, carried: [4]) }
    call.answer()
    for device in [4, 5] {
      call.tell(device, .invite(call.invite), 10.1)
      call.tell(device, .stop(Stop(reason: .answeredElsewhere, by: call.roster.party(3))), 11.05)
    }
    if course.isRefusedBefore {
      call.say(4, .call(call.address, .alerting), 11.1)
      call.reply(4, .call(call.ended(.answeredElsewhere, by: call.roster.party(3))), 11.15)
    }
    call.say(4, .call(call.address, .pull(PullRequest(from: "d0", description: ""))), 12)
    let pull = call.request
    if course.isCutOff { call.checker.detached(device: 4, from: [call.id], at: at(12.01)) }
    let puller = call.roster.party(4)
    if course.isFormerTold { call.tell(3, .stop(Stop(reason: .moved, by: puller)), 12.1) }
    if course.isCallerTold { call.tell(0, .moved(Moved(to: puller, number: 1)), 12.1) }
    call.say(0, .call(call.address, .hangUp), 14)
    let caller = call.roster.party(0)
    call.reply(0, .call(call.ended(.hungUp, by: caller)), 14.05)
    if course.isCutOff { call.checker.attached(device: 4, in: [call.id], at: at(15)) }
    let by = course.repliedReason == .hungUp ? caller : call.roster.party(3)
    if course.isStoppedAtLast {
      call.tell(4, .stop(Stop(reason: course.repliedReason, by: by)), 15.05)
    }
    if course.isToldByAnotherReply {
      call.say(4, .call(call.address, .alerting), 15.05)
      call.reply(4, .call(call.ended(course.repliedReason, by: by)), 15.06)
    }
    call.reply(4, to: pull, .answer(won: false, call.ended(course.repliedReason, by: by)), 15.1)
    let verdict = try call.judge()
    return (Set(verdict.violations.map(\.rule)), verdict.fate)
  }

  @Test("what others were told of the move excuses the end that the device is told")
  func lostReply() throws {
    let (broken, fate) = try judged(Course())
    #expect(broken == [])
    #expect(fate.mayHaveMoved && fate.answeredBy == 3)
    #expect(try judged(Course(isStoppedAtLast: true)).broken == [])
    #expect(try judged(Course(isRefusedBefore: true)).broken == [])
    #expect(try judged(Course(isToldByAnotherReply: true)).broken == [])
    // The session may have broken without a fault that the judge knows.
    #expect(try judged(Course(isFaultKnown: false)).broken == [])
    // Its edge forgot the reply without breaking the connection.
    #expect(try judged(Course(isCutOff: false)).broken == [])
  }

  @Test("the end of a call is not for a device that nobody saw taking it over")
  func nobodySawIt() throws {
    let unseen = Course(isFormerTold: false, isCallerTold: false)
    #expect(try judged(unseen).broken.contains(.duplicateEnd))
  }

  @Test(
    "the reply to a repeated answer says what has become of the call since it was won",
    arguments: [(.moved, false), (.unanswered, true)] as [(EndReason, Bool)])
  func repeatedAnswer(reason: EndReason, isBroken: Bool) throws {
    var call = JudgedCall(attached: [3, 4])
    call.answer()
    call.say(3, .call(call.address, .answer(description: "")), 12)
    call.reply(3, .answer(won: false, call.ended(reason, by: call.roster.party(4))), 12.1)
    #expect(try call.judge().violations.contains { $0.rule == .winnerToldItLost } == isBroken)
  }

  @Test("who answered, and learns first that another device has the call, was told enough")
  func movedBeforeTheReply() throws {
    func judged(isMoved: Bool) throws -> Set<CorrectnessRule> {
      var call = JudgedCall(attached: [3, 4, 5])
      call.outage(.killEdge, from: 10.95, to: 15, carried: [3])
      call.accept()
      for device in 3...5 { call.tell(device, .invite(call.invite), 10.1) }
      call.say(3, .call(call.address, .answer(description: "")), 10.9)
      call.checker.detached(device: 3, from: [call.id], at: at(10.95))
      let (answerer, puller) = (call.roster.party(3), call.roster.party(4))
      call.tell(0, .answered(Answered(by: answerer)), 11)
      for device in [4, 5] {
        call.tell(device, .stop(Stop(reason: .answeredElsewhere, by: answerer)), 11.05)
      }
      call.say(4, .call(call.address, .pull(PullRequest(from: "d0", description: ""))), 12)
      call.tell(0, .moved(Moved(to: puller, number: 1)), 12.1)
      call.checker.attached(device: 3, in: [call.id], at: at(15))
      if isMoved { call.tell(3, .stop(Stop(reason: .moved, by: puller)), 15.1) }
      return Set(try call.judge().violations.map(\.rule))
    }
    #expect(try !judged(isMoved: true).contains(.noWinner))
    #expect(try judged(isMoved: false).contains(.noWinner))
  }

  @Test("without a fault the reply to a pull is not lost")
  func noFault() throws {
    let calm = Course(isCutOff: false, isFaultKnown: false)
    #expect(try !judged(calm).broken.isEmpty)
  }

  @Test("one that was told that it lost has not taken the call over")
  func toldThatItLost() throws {
    let lost = Course(isCutOff: false, repliedReason: .answeredElsewhere)
    #expect(try !judged(lost).broken.isEmpty)
  }

  @Test("the caller must be told of the move all the same")
  func callerNotTold() throws {
    #expect(
      try judged(Course(isFaultKnown: false, isCallerTold: false)).broken == [.movedWrongly])
  }
}
