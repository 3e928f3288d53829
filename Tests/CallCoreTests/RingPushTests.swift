import CallCore
import Testing

/// The states of the push that makes a leg's device ring, and every event in each of them.
@Suite struct RingPushTests {
  private static let due = RingPush.due(at: Timestamp(microseconds: 5))
  private static let late = RingPush.due(at: Timestamp(microseconds: 9))
  private static let waking = RingPush.decided(.underWay, isReported: false)
  private static let wakingTold = RingPush.decided(.underWay, isReported: true)
  private static let unsure = RingPush.decided(.uncertain, isReported: false)
  private static let unsureTold = RingPush.decided(.uncertain, isReported: true)
  private static let over = RingPush.decided(.over, isReported: false)
  private static let overTold = RingPush.decided(.over, isReported: true)

  private static let undecided: [RingPush] = [.impossible, .idle, due]
  private static let decided = [waking, wakingTold, unsure, unsureTold, over, overTold]

  /// The state that an event makes of each, in the order of those lists.
  struct Event: Sendable, CustomTestStringConvertible {
    var testDescription: String
    var ofUndecided: [RingPush]
    var ofDecided: [RingPush]
    var happen: @Sendable (inout RingPush) -> Void

    init(
      _ name: String, _ ofUndecided: [RingPush] = undecided, _ ofDecided: [RingPush] = decided,
      happen: @escaping @Sendable (inout RingPush) -> Void
    ) {
      (testDescription, self.happen) = (name, happen)
      (self.ofUndecided, self.ofDecided) = (ofUndecided, ofDecided)
    }
  }

  private static let givenUp = [over, overTold, unsure, unsureTold, over, overTold]

  private static let events: [Event] = [
    Event("a token comes", [.idle, .idle, due]) { $0.becamePossible() },
    Event("the token goes", [.impossible, .impossible, .impossible], givenUp) {
      $0.becameImpossible()
    },
    Event("it is scheduled", [.impossible, late, late]) { push in
      let isPossible = push == .idle || push == due
      let isScheduled = push.schedule(at: late.dueAt)
      #expect(isScheduled == isPossible)
    },
    Event("it is due no longer", [.impossible, .idle, .idle]) { $0.unschedule() },
    Event(
      "it is decided, and keeps its report", [waking, waking, waking],
      [waking, wakingTold, waking, wakingTold, waking, wakingTold]
    ) { $0.decide() },
    Event(
      "its device is awake, and rings by its socket", [.impossible, .idle, .idle],
      [over, overTold, over, overTold, over, overTold]
    ) { $0.deviceIsAwake() },
    Event("the leg ended", [.impossible, .idle, .idle], givenUp) { $0.legEnded() },
    Event("the call waits for it no longer", undecided, givenUp) { $0.giveUp() },
  ]

  private static func report(_ outcome: PushOutcome, _ ofDecided: [RingPush]) -> Event {
    Event("\(outcome)", undecided, ofDecided) { $0.report(outcome) }
  }

  private static let reports: [Event] = [
    report(.accepted, [wakingTold, wakingTold, unsureTold, unsureTold, overTold, overTold]),
    report(
      .failed(reason: "broke", mayHaveArrived: true),
      [unsureTold, unsureTold, unsureTold, unsureTold, overTold, overTold]),
    refusal(.expired), refusal(.tokenGone(at: nil)), refusal(.rejected(reason: "BadTopic")),
    refusal(.failed(reason: "full")),
  ]

  private static func refusal(_ outcome: PushOutcome) -> Event {
    report(outcome, [overTold, overTold, unsureTold, unsureTold, overTold, overTold])
  }

  @Test(arguments: events + reports) func whatAnEventMakesOfEachState(event: Event) {
    let states = Self.undecided + Self.decided
    for (state, expected) in zip(states, event.ofUndecided + event.ofDecided) {
      var next = state
      event.happen(&next)
      #expect(next == expected, "\(state)")
    }
  }

  @Test(arguments: [false, true], [false, true])
  func aNewOwnerKnowsOnlyWhetherItWasDecided(isPossible: Bool, isAwaited: Bool) {
    func after(_ state: RingPush) -> RingPush {
      var state = state
      state.takenOver(isPossible: isPossible, isAwaited: isAwaited)
      return state
    }
    for state in Self.undecided { #expect(after(state) == (isPossible ? .idle : .impossible)) }
    for (state, givenUp) in zip(Self.decided, Self.givenUp) {
      let waking = RingPush.decided(.underWay, isReported: state.isReported)
      #expect(after(state) == (isAwaited ? waking : givenUp))
    }
  }

  @Test func whatAStateSays() {
    for state in Self.undecided {
      #expect(!state.isDecided && !state.isReported && !state.isWaking && !state.mayRing)
    }
    #expect(Self.due.dueAt == Timestamp(microseconds: 5))
    #expect(RingPush.idle.dueAt == .distantFuture && RingPush.impossible.dueAt == .distantFuture)
    #expect(Self.decided.allSatisfy { $0.isDecided && $0.dueAt == .distantFuture })
    #expect(Self.decided.map(\.isReported) == [false, true, false, true, false, true])
    #expect(Self.decided.map(\.isWaking) == [true, true, false, false, false, false])
    #expect(Self.decided.map(\.mayRing) == [true, true, true, true, false, false])
  }
}
