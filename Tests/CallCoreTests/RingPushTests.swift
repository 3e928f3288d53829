import CallCore
import Testing

/// The states of the push that makes a leg's device ring, and every event in each of them.
@Suite struct RingPushTests {
  private static let soon = Timestamp(microseconds: 5)
  private static let late = Timestamp(microseconds: 9)
  private static let lost = PushOutcome.failed(reason: "broke", mayHaveArrived: true)

  /// Every state that there is.
  private static let all: [RingPush] =
    [.impossible, .idle, .due(at: soon)]
    + [RingPush.Waking.underWay, .uncertain, .over].flatMap {
      [RingPush.decided($0, isReported: false), .decided($0, isReported: true)]
    }

  private func after(
    _ state: RingPush, _ event: (inout RingPush) -> Void
  ) -> RingPush {
    var state = state
    event(&state)
    return state
  }

  @Test func isScheduledOnlyWhereItIsPossibleAndWasNotDecided() {
    for state in Self.all {
      var next = state
      let isScheduled = next.schedule(at: Self.late)
      switch state {
      case .idle, .due:
        #expect(isScheduled)
        #expect(next == .due(at: Self.late))
        #expect(next.dueAt == Self.late)
      case .impossible, .decided:
        #expect(!isScheduled)
        #expect(next == state)
      }
    }
  }

  @Test func unscheduleForgetsOnlyTheTime() {
    for state in Self.all {
      let expected = state == .due(at: Self.soon) ? .idle : state
      #expect(after(state) { $0.unschedule() } == expected)
    }
  }

  @Test func tokensComeAndGo() {
    for state in Self.all {
      let gained = after(state) { $0.becamePossible() }
      #expect(gained == (state == .impossible ? .idle : state))
      let removed = after(state) { $0.becameImpossible() }
      switch state {
      case .impossible, .idle, .due: #expect(removed == .impossible)
      case .decided(.underWay, let isReported):
        #expect(removed == .decided(.over, isReported: isReported))
      case .decided: #expect(removed == state)
      }
    }
  }

  @Test func isDecidedOnceAndKeepsItsReport() {
    for state in Self.all {
      let decided = after(state) { $0.decide() }
      #expect(decided == .decided(.underWay, isReported: state.isReported))
      #expect(decided.isWaking && decided.mayRing && decided.isDecided)
      #expect(decided.dueAt == .distantFuture)
    }
  }

  @Test func anAwakeDeviceRingsByItsSocket() {
    for state in Self.all {
      let awake = after(state) { $0.deviceIsAwake() }
      #expect(!awake.mayRing)
      #expect(awake.dueAt == .distantFuture)
      #expect(awake.isDecided == state.isDecided)
      #expect(awake.isReported == state.isReported)
    }
  }

  @Test func aLegThatEndedStillNeedsACleanUpWhereThePushMayHaveArrived() {
    for state in Self.all {
      let ended = after(state) { $0.legEnded() }
      #expect(!ended.isWaking)
      #expect(ended.dueAt == .distantFuture)
      if case .decided(.uncertain, _) = state {
        #expect(ended == state)
      } else {
        #expect(!ended.mayRing)
      }
    }
  }

  @Test func aReportOfWhatWasNotDecidedChangesNothing() {
    for state in Self.all where !state.isDecided {
      for outcome: PushOutcome in [.accepted, .expired, Self.lost, .tokenGone(at: nil)] {
        #expect(after(state) { $0.report(outcome) } == state)
      }
    }
  }

  @Test func reports() {
    let underWay = RingPush.decided(.underWay, isReported: false)
    #expect(after(underWay) { $0.report(.accepted) } == .decided(.underWay, isReported: true))
    #expect(after(underWay) { $0.report(Self.lost) } == .decided(.uncertain, isReported: true))
    for outcome: PushOutcome in [
      .expired, .tokenGone(at: nil), .rejected(reason: "BadTopic"), .failed(reason: "full"),
    ] {
      #expect(after(underWay) { $0.report(outcome) } == .decided(.over, isReported: true))
    }
  }

  /// A gateway repeats its report until it has the reply, and the device may have attached meanwhile.
  @Test func aRepeatedReportChangesNothingMore() {
    for outcome: PushOutcome in [.accepted, Self.lost, .expired, .tokenGone(at: nil)] {
      for state in Self.all where state.isDecided {
        let once = after(state) { $0.report(outcome) }
        #expect(once.isReported)
        if once != .decided(.underWay, isReported: true) {
          #expect(after(once) { $0.report(outcome) } == once)
        }
      }
      let awake = after(.decided(.over, isReported: false)) { $0.report(outcome) }
      #expect(!awake.mayRing, "it attached: no report makes it ring again")
    }
  }

  @Test func aNewOwnerKnowsOnlyWhetherItWasDecided() {
    for state in Self.all {
      for isPossible in [false, true] {
        let waiting = after(state) { $0.takenOver(isPossible: isPossible, isAwaited: true) }
        let away = after(state) { $0.takenOver(isPossible: isPossible, isAwaited: false) }
        guard state.isDecided else {
          #expect(waiting == (isPossible ? .idle : .impossible))
          #expect(away == waiting)
          continue
        }
        #expect(waiting == .decided(.underWay, isReported: state.isReported))
        #expect(!away.isWaking)
        #expect(away.isReported == state.isReported)
      }
    }
  }
}
