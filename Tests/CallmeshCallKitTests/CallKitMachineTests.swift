import CallmeshCallKit
import CallmeshClient
import Testing

/// Apple's rules for pushes, and what becomes of the user's actions.
@Suite struct CallKitMachineTests {
  let id = CallID(high: 1, low: 1)
  let other = CallID(high: 2, low: 2)
  let spare = CallID(high: 9, low: 9)
  let ann = CallKitMachine.Shown(handle: "ann", name: "Ann")
  var machine = CallKitMachine()

  private var address: Address { Address(callee: "me", call: id) }

  private mutating func push(isExpired: Bool = false) -> [CallKitMachine.Action] {
    machine.pushed(.ring(address, ann), isExpired: isExpired, spare: spare)
  }

  /// For a push of a call that is over: it may ring once more.
  private func late(_ reason: CallKitMachine.EndedReason) -> [CallKitMachine.Action] {
    [.report(id, ann), .reportEnded(id, reason), .wake(address, isWanted: false)]
  }

  private mutating func cleanUp(
    _ reason: CallKitMachine.EndedReason = .remoteEnded
  ) -> [CallKitMachine.Action] {
    machine.pushed(.end(id, reason, .init(handle: "x")), isExpired: false, spare: spare)
  }

  /// A call that this device has.
  private mutating func talk(_ id: CallID) {
    _ = machine.incoming(id, ann)
    _ = machine.answer(id)
    _ = machine.answered(id)
  }

  // MARK: Pushes

  @Test mutating func aPushIsReportedFirst() {
    #expect(push() == [.report(id, ann), .wake(address, isWanted: false)])
    #expect(machine.shown == [id])
    #expect(machine.incoming(id, ann) == [])
  }

  @Test mutating func anExpiredPushIsReportedAndEnded() {
    #expect(push(isExpired: true) == [.report(id, ann), .reportEnded(id, .unanswered)])
    #expect(machine.shown.isEmpty)
    #expect(push() == late(.unanswered))
  }

  @Test mutating func aPushThatCannotBeReadIsReportedAndEnded() {
    let actions = machine.pushed(nil, isExpired: false, spare: spare)
    #expect(actions == [.report(spare, .init(handle: "unknown")), .reportEnded(spare, .failed)])
    #expect(machine.shown.isEmpty)
  }

  @Test mutating func aPushOfACallThatRingsIsReportedAgain() {
    _ = machine.incoming(id, ann)
    #expect(push() == [.report(id, ann), .wake(address, isWanted: false)])
    #expect(machine.reportFailed(id, .isShown) == [])
    #expect(machine.answer(id) == [.answer(id)])
  }

  @Test mutating func aLatePushOfACallThatEndedIsEndedWithItsReason() {
    _ = push()
    #expect(machine.ended(id, .answeredElsewhere) == [.reportEnded(id, .answeredElsewhere)])
    #expect(push() == late(.answeredElsewhere))
  }

  @Test mutating func anUnknownCallIsEndedWhenTheClusterSaysSo() {
    _ = push()
    #expect(machine.ended(id, .failed) == [.reportEnded(id, .failed)])
  }

  @Test mutating func aCleanUpOfACallNeverShownIsReportedAndEnded() {
    let shown = CallKitMachine.Shown(handle: "x")
    #expect(
      cleanUp(.answeredElsewhere) == [.report(id, shown), .reportEnded(id, .answeredElsewhere)])
    #expect(machine.shown.isEmpty)
    // The ring push comes behind it.
    #expect(push() == late(.answeredElsewhere))
  }

  @Test mutating func aCleanUpEndsWhatRings() {
    _ = push()
    #expect(cleanUp().last == .reportEnded(id, .remoteEnded))
    #expect(machine.ended(id, .remoteEnded) == [])
  }

  @Test mutating func aCleanUpDoesNotEndACallThatThisDeviceHas() {
    talk(id)
    let actions = cleanUp(.answeredElsewhere)
    #expect(actions == [.report(id, .init(handle: "x"))])
    #expect(machine.shown == [id])
  }

  @Test mutating func whoIsNotToBeDisturbedLetsTheOthersRing() {
    _ = push()
    #expect(machine.reportFailed(id, .isFiltered) == [.declineHere(id)])
    _ = machine.incoming(other, ann)
    #expect(machine.reportFailed(other, .other) == [.busy(other)])
    #expect(machine.shown.isEmpty)
    #expect(machine.reportFailed(other, .other) == [])
  }

  // MARK: Answers

  @Test mutating func anAnswerIsFulfilledWhenItHasWon() {
    _ = machine.incoming(id, ann)
    #expect(machine.answer(id) == [.answer(id)])
    #expect(machine.answered(id) == [.fulfill(id, .answer)])
    #expect(machine.answered(id) == [])
  }

  @Test mutating func anAnswerBeforeTheConnectionWaits() {
    _ = push()
    #expect(machine.answer(id) == [.wake(Address(call: id), isWanted: true)])
    #expect(machine.incoming(id, ann) == [.answer(id)])
    #expect(machine.incoming(id, ann) == [])
    #expect(machine.answered(id) == [.fulfill(id, .answer)])
  }

  @Test mutating func anAnswerThatLostFails() {
    _ = machine.incoming(id, ann)
    _ = machine.answer(id)
    #expect(
      machine.ended(id, .answeredElsewhere) == [
        .fail(id, .answer), .reportEnded(id, .answeredElsewhere),
      ])
  }

  @Test mutating func anAnswerToACallThatIsOverFailsBeforeItRang() {
    _ = push()
    _ = machine.answer(id)
    #expect(machine.ended(id, .failed) == [.fail(id, .answer), .reportEnded(id, .failed)])
    #expect(machine.answer(id) == [.fail(id, .answer)])
  }

  @Test mutating func anAnswerWithoutAReplyMayBeRepeated() {
    _ = machine.incoming(id, ann)
    _ = machine.answer(id)
    #expect(machine.answerFailed(id) == [.fail(id, .answer)])
    #expect(machine.answer(id) == [.answer(id)])
  }

  @Test mutating func aConsultedDeviceAnswersWithoutRinging() {
    let actions = machine.incoming(id, ann, isConsulted: true)
    #expect(actions == [.report(id, ann), .requestAnswer(id)])
    #expect(machine.answer(id) == [.answer(id)])
  }

  @Test mutating func aCrossingCallIsNotShown() {
    #expect(machine.incoming(id, ann, crosses: true) == [])
    #expect(machine.ended(id, .answeredElsewhere) == [])
  }

  @Test mutating func aCallThatOnesOwnGaveWayToIsShownWhenThePhoneHasIt() {
    _ = machine.start(other, handle: "ann", video: false)
    #expect(machine.incoming(id, ann, crosses: true) == [])
    #expect(machine.ended(other, .answeredElsewhere) == [.reportEnded(other, .answeredElsewhere)])
    #expect(machine.answered(id, ann) == [.report(id, ann), .requestAnswer(id)])
    #expect(machine.answer(id) == [.fulfill(id, .answer)])
    #expect(machine.shown == [id])
  }

  @Test mutating func aCallThatWasLeftBeforeItsInviteCameIsNotShownAgain() {
    _ = push()
    #expect(machine.end(id) == [.decline(id), .fulfill(id, .end)])
    #expect(machine.incoming(id, ann) == [] && machine.answered(id, ann) == [])
    #expect(machine.ended(id, .declinedElsewhere) == [])
    // It rings once more, for a transfer.
    #expect(machine.incoming(id, ann) == [.report(id, ann)])
    #expect(machine.reportFailed(id, .isFiltered) == [.declineHere(id)])
    #expect(machine.incoming(id, ann) == [])
  }

  // MARK: Other actions

  @Test mutating func endingNeverFails() {
    #expect(machine.end(id) == [.fulfill(id, .end)])
    _ = machine.incoming(id, ann)
    #expect(machine.end(id) == [.decline(id), .fulfill(id, .end)])
    // The cluster's word of it is not reported: the system knows.
    #expect(machine.ended(id, .declinedElsewhere) == [])
    talk(other)
    #expect(machine.end(other) == [.finish(other), .fulfill(other, .end)])
  }

  @Test mutating func endingWhileTheAnswerIsUnderWay() {
    _ = machine.incoming(id, ann)
    _ = machine.answer(id)
    #expect(machine.end(id) == [.fail(id, .answer), .finish(id), .fulfill(id, .end)])
    #expect(machine.answered(id) == [])
  }

  @Test mutating func anOutgoingCallIsFollowed() {
    let place = CallKitMachine.Action.place(id, callee: "bob", video: true)
    #expect(machine.start(id, handle: "bob", video: true) == [place, .fulfill(id, .start)])
    #expect(machine.start(id, handle: "bob", video: true) == [.fail(id, .start)])
    #expect(machine.placed(id) == [.reportConnecting(id)])
    #expect(machine.answered(id) == [.reportConnected(id)])
    #expect(machine.placed(id) == [])
    #expect(machine.ended(id, .remoteEnded) == [.reportEnded(id, .remoteEnded)])
    _ = machine.start(other, handle: "bob", video: false)
    #expect(machine.startFailed(other) == [.reportEnded(other, .failed)])
  }

  @Test mutating func anActionThatTimesOutEndsTheCall() {
    _ = machine.incoming(id, ann)
    _ = machine.answer(id)
    #expect(machine.timedOut(id, .answer) == [.finish(id), .reportEnded(id, .failed)])
    #expect(machine.answered(id) == [])
    talk(other)
    #expect(machine.timedOut(other, .hold) == [])
    #expect(machine.shown == [other])
  }

  @Test mutating func aResetEndsEverything() {
    talk(id)
    _ = machine.incoming(other, ann)
    #expect(machine.reset() == [.audio(isActive: false), .finish(id), .finish(other)])
    #expect(machine.shown.isEmpty)
    #expect(machine.ended(id, .remoteEnded) == [])
  }

  @Test mutating func twoCallsAreHeldAndMutedByThemselves() {
    talk(id)
    _ = machine.incoming(other, ann)
    #expect(machine.hold(other, true) == [.fail(other, .hold)])
    #expect(machine.hold(id, true) == [.hold(id, true), .fulfill(id, .hold)])
    #expect(machine.answer(other) == [.answer(other)])
    #expect(machine.answered(other) == [.fulfill(other, .answer)])
    #expect(machine.mute(other, true) == [.mute(other, true), .fulfill(other, .mute)])
    #expect(machine.end(other) == [.finish(other), .fulfill(other, .end)])
    #expect(machine.hold(id, false) == [.hold(id, false), .fulfill(id, .hold)])
    #expect(machine.mute(other, false) == [.fail(other, .mute)])
  }

  @Test func theAudioSessionIsHandedOn() {
    #expect(machine.audioChanged(isActive: true) == [.audio(isActive: true)])
  }

  @Test mutating func endedCallsAreForgottenAtTheLimit() {
    for number in 0..<40 {
      let id = CallID(high: 7, low: UInt64(number))
      _ = machine.incoming(id, ann)
      _ = machine.ended(id, .remoteEnded)
    }
    func late(_ number: UInt64, _ machine: inout CallKitMachine) -> CallKitMachine.Action? {
      let address = Address(call: CallID(high: 7, low: number))
      return machine.pushed(.ring(address, ann), isExpired: false, spare: spare)
        .dropFirst().first
    }
    #expect(late(39, &machine) == .reportEnded(CallID(high: 7, low: 39), .remoteEnded))
    let oldest = Address(call: CallID(high: 7, low: 0))
    #expect(late(0, &machine) == .wake(oldest, isWanted: false))
  }
}

@Suite struct ReadPushTests {
  private let call = "00000000-0000-0001-0000-000000000001"

  /// A phone whose clock is wrong, and that does not know the cluster's time yet, must not end a fresh call.
  @Test func onlyTheClustersTimeMakesAPushOld() {
    let payload: [AnyHashable: Any] = [
      "callmesh": [
        "v": 1, "purpose": "ring", "call": call, "callee": "bob", "caller": ["user": "ann"],
        "sentAtMs": 1_790_000_000_000, "deadlineMs": 1_790_000_030_000,
      ]
    ]
    func isExpired(_ seconds: Int64?) -> Bool {
      let time = seconds.map { Timestamp(microseconds: (1_790_000_000 + $0) * 1_000_000) }
      let read = ReadPush(payload, clusterTime: time)
      #expect(read.push != nil)
      return read.isExpired
    }
    #expect(!isExpired(nil))
    #expect(!isExpired(29))
    #expect(isExpired(31))
  }

  @Test func whatCannotBeReadIsNothing() {
    #expect(ReadPush([:], clusterTime: nil).push == nil)
    #expect(ReadPush(["callmesh": "x"], clusterTime: nil).push == nil)
  }

  @Test(arguments: [
    (EndReason.answeredElsewhere, Call.Role.callee, CallKitMachine.EndedReason.answeredElsewhere),
    (.declined, .callee, .declinedElsewhere), (.declined, .caller, .remoteEnded),
    (.cancelled, .callee, .remoteEnded), (.unanswered, .callee, .unanswered),
    (.failed, .callee, .failed), (.moved, .callee, .answeredElsewhere),
  ])
  func endsAreShownAsApplesReasons(
    reason: EndReason, role: Call.Role, shown: CallKitMachine.EndedReason
  ) {
    #expect(CallKitMachine.EndedReason(Call.End(reason: reason), role: role) == shown)
  }
}
