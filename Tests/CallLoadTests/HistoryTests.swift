import CallCore
import CallJudge
import CallLoadKit
import TestSupport
import Testing

/// Histories that users read at the end of a run, from the cluster in memory and by themselves.
@Suite struct HistoryTests {
  @Test(arguments: Proof.arguments([1, 2], andInProof: [3]) as [UInt64])
  func aFaultlessClusterIsFoundFaultless(seed: UInt64) throws {
    let outcome = try #require(try TwinRun(seed: seed, readsHistories: true).outcome())
    let result = outcome.result
    #expect(result.callsCompleted == 600, "\(result.failures)")
    #expect(result.failures.isEmpty, "\(result.failures)")
    #expect(result.examples.values.flatMap { $0 } == [String]())
    let history = try #require(result.history)
    #expect(history.users >= 25)
    #expect(history.entries > 900)
    #expect(history.callsOfBothSides > 400)
  }

  @Test func nobodyReadsWhereThatIsNotWanted() throws {
    let outcome = try #require(try TwinRun(durationSeconds: 5).outcome())
    #expect(outcome.result.history == nil)
  }

  static let expected: [(FaultyTwin.Fault, CorrectnessRule)] = [
    (.losesHistory, .historyLost), (.doublesHistory, .historyDoubled),
    (.changesHistory, .historyDisagrees),
  ]

  @Test(arguments: expected)
  func aFaultIsReported(fault: FaultyTwin.Fault, rule: CorrectnessRule) throws {
    let run = TwinRun(fault: fault, durationSeconds: 10, readsHistories: true)
    let outcome = try #require(try run.outcome())
    let result = outcome.result
    #expect(outcome.faultsPlayed > 0)
    #expect(result.correctness.filter { $0.value > 0 }.map(\.key) == [rule])
    #expect(result.callsCompleted == result.callsPlaced, "it is about histories, not calls")
    #expect(result.examples[rule]?.first?.contains("seed 7") == true)
  }

  // MARK: The judge alone

  private static let roster = Roster(devices: 9, devicesPerUser: 3)
  private static let call = CallID(high: 1, low: 2)
  private static let time = Timestamp(microseconds: 1_790_000_000_000_000)

  /// Device 0 called user 1, whose device 4 answered.
  private func fate() -> CallFate {
    var fate = CallFate(call: Self.call, caller: 0, callee: "u1")
    fate.isAccepted = true
    fate.answeredBy = 4
    fate.reason = .hungUp
    return fate
  }

  private func entry(of user: Int) -> HistoryEntry {
    HistoryEntry(
      call: Self.call, callee: "u1", isPlaced: user == 0, peer: user == 0 ? "u1" : "u0",
      device: user == 0 ? "d0" : "d1", placedAt: Self.time, answeredAt: Self.time + .seconds(1),
      endedAt: Self.time + .seconds(2), reason: .hungUp)
  }

  private func rules(
    _ fate: CallFate, isWhole: Bool = true, hasFormer: Bool = false,
    _ histories: [Int: [HistoryEntry]]
  ) -> [CorrectnessRule] {
    HistoryJudge([fate], isWhole: isWhole, hasFormer: hasFormer, roster: Self.roster)
      .judge(histories).map(\.rule)
  }

  @Test func bothSidesHaveTheCallOnce() {
    let (caller, callee) = (entry(of: 0), entry(of: 1))
    #expect(rules(fate(), [0: [caller], 1: [callee]]) == [])
    #expect(rules(fate(), [0: [caller], 1: []]) == [.historyLost])
    #expect(rules(fate(), [0: [], 1: []]) == [.historyLost, .historyLost])
    #expect(rules(fate(), [0: [caller, caller], 1: [callee]]) == [.historyDoubled])
  }

  @Test("a history that says otherwise", arguments: 0..<8)
  func disagreement(number: Int) {
    var entry = entry(of: 1)
    switch number {
    case 0: entry.isPlaced = true
    case 1: entry.peer = "u2"
    case 2: entry.device = "d0"
    case 3: entry.reason = .cancelled
    case 4: entry.answeredAt = nil
    case 5: entry.isMissed = true
    case 6: entry.divertedBy = "u2"
    default: entry.wentOn = true
    }
    #expect(rules(fate(), [1: [entry]]) == [.historyDisagrees])
  }

  @Test func theSidesHaveTheSameTimes() {
    var callee = entry(of: 1)
    callee.endedAt = Self.time + .seconds(3)
    #expect(rules(fate(), [1: [callee]]) == [], "nobody else knows the time")
    #expect(rules(fate(), [0: [entry(of: 0)], 1: [callee]]) == [.historyDisagrees])
  }

  @Test func callsThatNobodyPlaced() {
    var other = entry(of: 0)
    other.call = CallID(high: 3, low: 4)
    let histories = [0: [entry(of: 0), other]]
    #expect(rules(fate(), histories) == [.historyDisagrees])
    #expect(rules(fate(), isWhole: false, histories) == [], "it may be an earlier one")
  }

  @Test func aCallThatGaveWayStandsInNoHistory() {
    var gaveWay = fate()
    gaveWay.answeredBy = nil
    gaveWay.reason = .glare
    #expect(rules(gaveWay, [0: [], 1: []]) == [])
    var entry = entry(of: 0)
    entry.reason = .glare
    #expect(rules(gaveWay, [0: [entry]]) == [.historyDisagrees])
  }

  /// User 1 hands the call over to user 2, whose device 7 answers.
  @Test func aCallThatWasHandedOver() {
    var fate = fate()
    fate.transfer = CallFate.Transfer(
      terms: TransferTerms(user: 2, ofCaller: false), takenBy: 7)
    var former = entry(of: 1)
    (former.reason, former.endedAt) = (.transferred, Self.time + .seconds(2))
    var third = entry(of: 2)
    (third.divertedBy, third.answeredAt) = ("u1", Self.time + .seconds(2))
    #expect(rules(fate, [0: [entry(of: 0)], 1: [former], 2: [third]]) == [])
    #expect(rules(fate, [2: []]) == [.historyLost])
    #expect(rules(fate, [1: [entry(of: 1)]]) == [.historyDisagrees], "it was over sooner")
    var late = third
    late.answeredAt = Self.time + .seconds(3)
    #expect(rules(fate, [1: [former], 2: [late]]) == [.historyDisagrees])
    late = third
    late.peer = "u1"
    #expect(rules(fate, [2: [late]]) == [.historyDisagrees])
    // Nobody knows what became of it.
    fate.transfer?.takenBy = nil
    #expect(rules(fate, [1: [former], 2: [third]]) == [])
    #expect(rules(fate, [1: [entry(of: 1)], 2: []]) == [])
    // User 2 declined.
    fate.transfer?.failure = .declined
    #expect(rules(fate, [0: [entry(of: 0)], 1: [entry(of: 1)]]) == [])
    #expect(rules(fate, [2: []]) == [.historyLost])
    #expect(rules(fate, [2: [third]]) == [.historyDisagrees])
    (third.answeredAt, third.device, third.reason) = (nil, nil, .declined)
    #expect(rules(fate, [0: [entry(of: 0)], 2: [third]]) == [])
  }

  /// User 1 sends its calls on to user 2, whose device 7 answers.
  @Test func aCallThatWentOnIsInTheHistoryOfWhoAnswered() {
    var wentOn = fate()
    wentOn.wentOn = true
    wentOn.answeredBy = 7
    var answerer = entry(of: 2)
    answerer.divertedBy = "u1"
    var caller = entry(of: 0)
    #expect(rules(wentOn, [0: [caller]]) == [.historyDisagrees], "it does not say who answered")
    #expect(rules(wentOn, hasFormer: true, [0: [caller]]) == [])
    caller.answeredBy = "u2"
    #expect(rules(wentOn, [0: [caller], 1: [], 2: [answerer]]) == [])
    #expect(rules(wentOn, [2: []]) == [.historyLost])
    answerer.divertedBy = ""
    #expect(rules(wentOn, [2: [answerer]]) == [.historyDisagrees])
  }

  /// User 1 is a group; a device of user 2 rang until the caller gave up.
  @Test func aCallThatWentOnInVainIsInTheHistoryOfWhoMissedIt() {
    var wentOn = fate()
    (wentOn.wentOn, wentOn.answeredBy, wentOn.reason) = (true, nil, .cancelled)
    wentOn.missedBy = [2]
    var member = entry(of: 2)
    (member.divertedBy, member.device, member.answeredAt) = ("u1", nil, nil)
    (member.reason, member.isMissed) = (.cancelled, true)
    #expect(rules(wentOn, [2: [member]]) == [])
    #expect(rules(wentOn, [2: []]) == [.historyLost])
    var known = member
    known.isMissed = false
    #expect(rules(wentOn, [2: [known]]) == [.historyDisagrees])
    // Another member answered.
    (wentOn.answeredBy, wentOn.reason, wentOn.missedBy) = (8, .hungUp, [])
    (member.reason, member.isMissed) = (.hungUp, false)
    #expect(rules(wentOn, [1: [member]]) == [.historyDisagrees])
    // User 2 declined, and the group rang on.
    (member.reason, member.answeredBy) = (.declined, "u2")
    var caller = entry(of: 0)
    caller.answeredBy = "u2"
    #expect(rules(wentOn, [0: [caller], 1: [member]]) == [])
    // Where it rang in vain, too, the user sees who answered. An earlier version stores nothing for that user.
    wentOn.outrung = [1]
    #expect(rules(wentOn, [1: []]) == [.historyLost])
    wentOn.answeredBy = nil
    wentOn.missedBy = [2]
    #expect(rules(wentOn, hasFormer: true, [1: [], 2: []]) == [])
  }
}
