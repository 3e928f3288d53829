import CallCore
import Testing

@Suite struct AppendMachineTests {
  static let now = Timestamp(microseconds: 1_000_000)
  typealias Action = AppendMachine.Action

  static func machine(attemptsMax: Int = 10) -> AppendMachine {
    AppendMachine(expecting: 8, rules: AppendMachine.Rules(attemptsMax: attemptsMax))
  }

  @Test func anAnswerThatProvesItCommits() {
    var append = Self.machine()
    #expect(append.state == .inFlight && append.nextDeadline == .distantFuture)
    #expect(
      append.handle(.appended(sequence: 9, isNext: true), now: Self.now)
        == .commit(sequence: 9, end: 9))
    #expect(append.state == .committed && append.nextDeadline == .distantFuture)
  }

  static let later = now + .milliseconds(250)

  /// Events that prove nothing, and what is looked up then.
  @Test(
    arguments: [AppendMachine.Event.appended(sequence: 11, isNext: false), .refused, .unanswered],
    [
      (.ours(sequence: 10, end: 12), .commit(sequence: 10, end: 12), .committed),
      (.foreign, .giveUp(.anotherOwner), .givenUp),
      (.unreadable(""), nil, .fateUnknown(lookAt: later)),
    ] as [(AppendMachine.LookupResult, Action?, AppendMachine.State)])
  func whatProvesNothingIsLookedUp(
    event: AppendMachine.Event, found: (AppendMachine.LookupResult, Action?, AppendMachine.State)
  ) {
    var append = Self.machine()
    #expect(append.handle(event, now: Self.now) == nil)
    #expect(append.state == .fateUnknown(lookAt: Self.now) && append.nextDeadline == Self.now)
    #expect(append.handle(.time, now: Self.now) == .lookUp(expecting: 8))
    #expect(append.state == .lookingUp && append.nextDeadline == .distantFuture)
    #expect(append.handle(.lookedUp(found.0), now: Self.now) == found.1)
    #expect(append.state == found.2)
    guard case .unreadable = found.0 else { return }
    #expect(append.handle(.time, now: Self.later) == .lookUp(expecting: 8))
  }

  @Test func whatIsNotThereIsAppendedAgainBehindTheEnd() {
    var append = Self.machine()
    var now = Self.now
    var pauses: [Int64] = []
    for attempt in 1...5 {
      _ = append.handle(.unanswered, now: now)
      _ = append.handle(.time, now: now)
      #expect(append.handle(.lookedUp(.unchanged(end: UInt64(8 + attempt))), now: now) == nil)
      let at = append.nextDeadline
      pauses.append((at - now).microseconds / 1000)
      if at > now { #expect(append.handle(.time, now: now) == nil, "before its time") }
      now = at
      #expect(append.handle(.time, now: now) == .append(expecting: UInt64(8 + attempt)))
      #expect(append.state == .inFlight)
    }
    // The first time at once; then slower.
    #expect(pauses == [0, 80, 160, 320, 640])
  }

  @Test func refusalsWithoutAReasonEndIt() {
    var append = Self.machine()
    var last: Action?
    var refusals = 0
    while append.state != .givenUp {
      let now = append.nextDeadline == .distantFuture ? Self.now : append.nextDeadline
      switch append.state {
      case .inFlight:
        last = append.handle(.refused, now: now)
        refusals += 1
      case .fateUnknown, .absent: last = append.handle(.time, now: now)
      case .lookingUp: last = append.handle(.lookedUp(.unchanged(end: 8)), now: now)
      case .committed, .givenUp: break
      }
    }
    #expect(last == .giveUp(.refused) && refusals == 3)
  }

  @Test func attemptsEnd() {
    var append = Self.machine(attemptsMax: 2)
    var last: Action?
    for _ in 0..<2 {
      _ = append.handle(.unanswered, now: Self.now)
      _ = append.handle(.time, now: append.nextDeadline)
      last = append.handle(.lookedUp(.unchanged(end: 8)), now: Self.now)
      if last == nil { _ = append.handle(.time, now: append.nextDeadline) }
    }
    #expect(last == .giveUp(.attempts(2)))
  }

  /// One question is open at a time: what answers none changes nothing.
  @Test func eventsThatNobodyWaitsForAreLeftAlone() {
    let all: [AppendMachine.Event] = [
      .appended(sequence: 9, isNext: true), .refused, .unanswered, .lookedUp(.unchanged(end: 9)),
      .lookedUp(.ours(sequence: 9, end: 9)), .time,
    ]
    var lookingUp = Self.machine()
    _ = lookingUp.handle(.unanswered, now: Self.now)
    var unknown = lookingUp
    _ = lookingUp.handle(.time, now: Self.now)
    var absent = lookingUp
    _ = absent.handle(.lookedUp(.unchanged(end: 8)), now: Self.now)
    var done = Self.machine()
    _ = done.handle(.appended(sequence: 9, isNext: true), now: Self.now)
    for event in all {
      if case .lookedUp = event {} else { #expect(unchanged(&lookingUp, event)) }
      if event != .time { #expect(unchanged(&unknown, event) && unchanged(&absent, event)) }
      #expect(unchanged(&done, event))
    }
  }

  private func unchanged(_ append: inout AppendMachine, _ event: AppendMachine.Event) -> Bool {
    let before = append
    return append.handle(event, now: Self.now) == nil && append == before
  }
}

/// Two owners of a shard, with answers that are lost, messages that come late or twice, a store that takes two at
/// once, reads of an old end, and crashes, in every order.
@Suite struct AppendExplorationTests {
  static let stepsMax = 15

  @Test func nobodySpeaksOfWhatDoesNotCount() {
    let explorer = AppendExplorer(stepsMax: Self.stepsMax)
    print("append exploration: \(explorer.states) states, \(explorer.depth) steps deep")
    #expect(explorer.violation == nil)
    #expect(explorer.states > 10_000)
  }

  @Test(arguments: AppendWorld.Sabotage.allCases)
  func mistakesAreFound(sabotage: AppendWorld.Sabotage) {
    let explorer = AppendExplorer(stepsMax: Self.stepsMax, sabotage)
    #expect(explorer.violation != nil, "\(sabotage) was not found in \(explorer.states) states")
  }
}
