import CallCore
import CallJudge
import CallLoadKit
import CallWire
import Testing

/// Device 0 calls devices 3 to 5, device 3 answers at 11 s, and one side hands the call over to user 2, whose devices are 6
/// to 8, at 12 s.
@Suite("The judge and calls that are handed over") struct TransferJudgeTests {
  private struct Course {
    var ofCaller = false
    /// Devices of the third user that get an invite.
    var rung = [6, 7, 8]
    /// Device 7 answers at 14 s; else it declines.
    var isAnswered = true
    /// The device that is called first learns that it has won.
    var isWinnerTold = true
    var isFormerTold = true
    var isStayerTold = true
    /// The reason that the other devices that rang get; nil: no stop.
    var others: EndReason? = .answeredElsewhere
    var faults: (inout JudgedCall) -> Void = { _ in }
  }

  private func shard(of user: Int) -> Int {
    ShardHash.shard(of: UserKey(app: "load", user: "u\(user)"), count: JudgedCall.shardCount)
  }

  private func judged(_ course: Course) throws -> (broken: Set<CorrectnessRule>, fate: CallFate) {
    let terms = TransferTerms(user: 2, ofCaller: course.ofCaller)
    var call = JudgedCall(attached: Set(0..<9), transfer: terms)
    course.faults(&call)
    call.answer(isReplied: course.isWinnerTold)
    for device in [4, 5] {
      call.tell(device, .invite(call.invite), 10.1)
      call.tell(device, .stop(Stop(reason: .answeredElsewhere, by: call.roster.party(3))), 11.05)
    }
    let (former, stayer) = course.ofCaller ? (0, 3) : (3, 0)
    call.say(former, .call(call.address, .transfer(TransferRequest(to: "u2"))), 12)
    let talk = CallState(call: call.id, callee: "u1", phase: .answered, by: call.roster.party(3))
    call.reply(former, .call(talk), 12.01)
    var invite = Invite(caller: call.roster.party(stayer), deadline: at(42))
    invite.transferredBy = call.roster.party(former)
    for device in course.rung { call.tell(device, .invite(invite), 12.1) }
    let last = course.isAnswered ? 7 : former
    if course.isAnswered { take(&call, course, former, stayer) } else { decline(&call, former) }
    for device in course.rung where device != 7 {
      guard let reason = course.others else { continue }
      call.tell(device, .stop(Stop(reason: reason, by: call.roster.party(7))), 14.1)
    }
    call.say(last, .call(call.address, .hangUp), 18)
    let by = call.roster.party(last)
    call.reply(last, .call(call.ended(.hungUp, by: by)), 18.05)
    call.tell(stayer, .stop(Stop(reason: .hungUp, by: by)), 18.1)
    let verdict = try call.judge()
    return (Set(verdict.violations.map(\.rule)), verdict.fate)
  }

  private func take(_ call: inout JudgedCall, _ course: Course, _ former: Int, _ stayer: Int) {
    let taker = call.roster.party(7)
    call.say(7, .call(call.address, .answer(description: "")), 14)
    let by = course.ofCaller ? call.roster.party(stayer) : taker
    call.reply(
      7, .answer(won: true, CallState(call: call.id, callee: "u1", phase: .answered, by: by)), 14.05
    )
    if course.isFormerTold { call.tell(former, .stop(Stop(reason: .transferred, by: taker)), 14.1) }
    if course.isStayerTold { call.tell(stayer, .moved(Moved(to: taker, number: 1)), 14.1) }
  }

  private func decline(_ call: inout JudgedCall, _ former: Int) {
    let party = call.roster.party(7)
    call.say(7, .call(call.address, .decline(.everywhere)), 14)
    call.reply(7, .call(call.ended(.declined, by: party)), 14.05)
    call.tell(
      former, .transfer(TransferNews(to: "u2", number: 1, reason: .declined, by: party)), 14.1)
  }

  @Test("either side is handed over", arguments: [false, true])
  func taken(ofCaller: Bool) throws {
    let (broken, fate) = try judged(Course(ofCaller: ofCaller))
    #expect(broken == [])
    #expect(fate.transfer?.takenBy == 7 && fate.answeredBy == 3 && fate.reason == .hungUp)
  }

  @Test("who has handed its side over need not learn that it had won")
  func winnerNotTold() throws {
    #expect(try judged(Course(isWinnerTold: false)).broken == [])
    #expect(try judged(Course(isAnswered: false, isWinnerTold: false)).broken.contains(.noWinner))
  }

  @Test("the third user declines", arguments: [false, true])
  func declined(ofCaller: Bool) throws {
    let course = Course(ofCaller: ofCaller, isAnswered: false, others: .declined)
    let (broken, fate) = try judged(course)
    #expect(broken == [])
    #expect(fate.transfer?.failure == .declined && fate.transfer?.takenBy == nil)
    #expect(
      try judged(Course(ofCaller: ofCaller, isAnswered: false)).broken == [.transferredWrongly])
  }

  @Test("who had the side, and who stays, must be told", arguments: [false, true])
  func notTold(ofCaller: Bool) throws {
    for course in [
      Course(ofCaller: ofCaller, isFormerTold: false),
      Course(ofCaller: ofCaller, isStayerTold: false), Course(ofCaller: ofCaller, others: nil),
      Course(ofCaller: ofCaller, others: .declined),
    ] {
      #expect(try judged(course).broken == [.transferredWrongly])
    }
  }

  @Test("who hands over another one's call, and who hears of it without a part in it")
  func strangers() throws {
    for device in [4, 0] {
      let broken = try judged(
        Course { $0.tell(device, .transfer(TransferNews(to: "u2", number: 1)), 9) }
      ).broken
      #expect(broken == [.transferredWrongly])
    }
    #expect(
      try judged(Course { $0.tell(2, .stop(Stop(reason: .hungUp)), 9) }).broken
        == [.transferredWrongly])
  }

  @Test("a device rings late where either shard had no owner, and another second later")
  func faults() throws {
    let (own, third) = (shard(of: 1), shard(of: 2))
    for (shards, to, expected) in [
      ([own], 12.5, []), ([third], 12.5, []), ([shard(of: 0)], 12.5, [.attachedNotRung]),
      ([third], 10.5, [.attachedNotRung]),
    ] as [([Int], Double, Set<CorrectnessRule>)] {
      let course = Course(rung: [6, 7]) {
        $0.outage(.killCoordinator, from: 9, to: to, shards: shards)
      }
      #expect(try judged(course).broken == expected, "\(shards)")
    }
  }

  @Test("a transfer that nobody can have missed does not end without a cause")
  func noCause() throws {
    func ended(_ reason: EndReason, _ time: Double, faultOf shards: [Int]) throws -> Int {
      var call = JudgedCall(
        attached: Set(0..<9), transfer: TransferTerms(user: 2, ofCaller: false))
      if !shards.isEmpty { call.outage(.killCoordinator, from: 12, to: 13, shards: shards) }
      call.answer()
      call.say(3, .call(call.address, .transfer(TransferRequest(to: "u2"))), 12)
      call.tell(3, .transfer(TransferNews(to: "u2", number: 1, reason: reason)), time)
      return try call.count(.transferredWrongly)
    }
    #expect(try ended(.unreachable, 20, faultOf: []) == 1)
    #expect(try ended(.unreachable, 20, faultOf: [shard(of: 2)]) == 0)
    #expect(try ended(.unanswered, 20, faultOf: []) == 1)
    #expect(try ended(.unanswered, 42, faultOf: []) == 0)
    #expect(try ended(.declined, 20, faultOf: [shard(of: 2)]) == 1)
  }
}
