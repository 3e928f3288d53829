import CallCore
import CallJudge
import CallLoadKit
import CallWire
import Testing

/// Candidates arrive once and in order, as the apps see them.
@Suite("The judge and candidates") struct SignalJudgeTests {
  @Test(
    "each stream that is out of order, or has one twice, counts once",
    arguments: [
      ([1, 2, 3], 0, 0), ([1, 3, 2], 1, 0), ([3, 2, 1], 1, 0), ([1, 2, 2, 3, 3], 0, 1),
      ([1, 3, 2, 3], 1, 1),
    ])
  func order(arrivals: [Int], outOfOrder: Int, doubled: Int) throws {
    var call = JudgedCall(attached: [3, 4, 5])
    call.answer()
    for number in arrivals { call.arrives(number, from: 0, at: 3) }
    let verdict = try call.judge()
    #expect(verdict.violations.count { $0.rule == .signalsOutOfOrder } == outOfOrder)
    #expect(verdict.violations.count { $0.rule == .signalsDoubled } == doubled)
  }

  @Test(
    "what was accepted and did not arrive is lost, unless the end came too soon for it",
    arguments: [
      // Accepted, arrived, when candidate 3 is accepted, when the winner hangs up.
      ([1, 2, 3], [1, 2, 3], 12.0, 20.0, 0), ([1, 2, 3], [1, 3], 12.0, 20.0, 1),
      ([1, 3], [1, 3], 12.0, 20.0, 0), ([1, 2, 3], [1, 2], 12.0, 20.0, 1),
      ([1, 2, 3], [1, 2], 12.0, 12.5, 0), ([1, 2, 3], [], 12.0, 20.0, 1),
    ])
  func lost(
    accepted: [Int], arrived: [Int], lastAt: Double, hangsUp: Double, broken: Int
  ) throws {
    var call = JudgedCall(attached: [3, 4, 5])
    call.answer()
    for number in accepted { call.accepts(number, from: 0, number == 3 ? lastAt : 11.5) }
    for number in arrived { call.arrives(number, from: 0, at: 3) }
    call.say(3, .call(call.address, .hangUp), hangsUp)
    #expect(try call.count(.signalsLost) == broken)
  }

  @Test(
    "a fault excuses what it keeps back until the end, and no gap",
    arguments: [([1], 0), ([1, 3], 1)])
  func lostInAnOutage(arrived: [Int], broken: Int) throws {
    var call = JudgedCall(attached: [3, 4, 5])
    call.outage(.killAllNATS, from: 11.2, to: 19)
    call.answer()
    for number in 1...3 { call.accepts(number, from: 0, 11.1) }
    for number in arrived { call.arrives(number, from: 0, at: 3) }
    call.say(3, .call(call.address, .hangUp), 20)
    #expect(try call.count(.signalsLost) == broken)
  }

  @Test("a device that was away when the call ended need not have everything")
  func receiverAway() throws {
    for (back, broken) in [(13.0, 1), (19.5, 0), (nil, 0)] as [(Double?, Int)] {
      var call = JudgedCall(attached: [3, 4, 5])
      call.answer()
      for number in 1...2 { call.accepts(number, from: 0, 11.2) }
      call.checker.detached(device: 3, from: [call.id], at: at(11.3))
      if let back { call.checker.attached(device: 3, in: [call.id], at: at(back)) }
      call.say(0, .call(call.address, .hangUp), 20)
      #expect(try call.count(.signalsLost) == broken, "back at \(back ?? 0)")
    }
  }

  @Test("a candidate names its sender and its number")
  func body() {
    let candidate = NumberedCandidate(sender: 17, number: 3)
    #expect(NumberedCandidate(body: candidate.body) == candidate)
    #expect(NumberedCandidate(body: "") == nil)
    #expect(NumberedCandidate(body: "candidate:1 1 udp network-id 1 generation x") == nil)
  }
}
