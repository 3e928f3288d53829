import CallCore

extension FaultyTwin {
  /// What it does wrong, in every `faultEvery`th call that gives it the chance.
  enum Fault: String, CaseIterable, Sendable {
    /// Tells a device that answers too late that it won.
    case tellsTwoWinners
    /// Replies to the winner with "done" only, and notifies the others of the answer.
    case tellsNoWinner
    /// Ignores answers: ends the call as unanswered at its deadline.
    case ignoresAnswers
    case forgetsALoser
    case forgetsTheOtherSide
    /// Rings a device that it has stopped.
    case ringsAfterEnd
    case tellsWrongReason
    /// Tells losers of a winner that is another device.
    case namesWrongWinner
    case tellsMissed
    /// Tells the winner that it was answered elsewhere.
    case tellsWinnerItLost
    case tellsTwoEnds
    case losesCommands
    case refusesForNoReason
    /// Accepts a call and forgets it: rings no device, and replies that there is no such call.
    case forgetsAccepted
    /// Takes a call, rings, and never ends it at the deadline.
    case forgetsTheDeadline
    /// Tells the caller of another end than the callee's devices.
    case tellsSidesDifferently
    case endsLate
    /// Ends a call as unreachable though the callee's devices are attached.
    case findsNobody
    /// Rings all of a user's attached devices but one.
    case leavesADeviceOut
    /// Passes a candidate on behind the next one.
    case reordersSignals
    /// Accepts a candidate and does not pass it on.
    case losesSignals
    /// Passes a candidate on twice, as two.
    case doublesSignals
    /// Connects both of two calls that cross.
    case connectsBothThatCross
    /// Does not tell the caller that another device took the call over.
    case tellsNobodyOfMoves
    case losesRegistrations
    /// Does not say who sent a call on.
    case forgetsTheForwarder
    /// Leaves a call out of the history of its callee.
    case losesHistory
    case doublesHistory
    /// Says to the caller that the call ended otherwise.
    case changesHistory
    case pushesAfterEnd
    /// Pushes a device twice, as two pushes.
    case pushesTwice
    /// Cleans up after the ring at the device that answered.
    case cleansUpTheWinner
    /// Sends a clean-up push that the device did not ask for.
    case cleansUpUnasked
    /// Tells a device that a push woke too late to ring.
    case ringsTheWokenAfterEnd
  }

  enum Stage {
    case ringing
    case answered(Int)
    case ended(EndReason, by: Party?)
  }

  struct Leg {
    let party: Party
    var isLive = true
    var wasTold = false
    /// Why it stopped for itself.
    var left: EndReason?
    /// What it sent before anybody answered.
    var signals: [Signal] = []
    /// The delivery to repeat when it attaches again.
    var last: Delivery?
    /// It had no session: a push is to wake it.
    var isPushed = false
    /// The push is kept until the call is over.
    var isPushHeld = false
  }

  final class Call {
    let id: CallID
    let number: Int
    let caller: Party
    let callee: String
    /// Whose devices ring: the callee, or the user to whom its rules send the call.
    var target: String
    let placedAt: Timestamp
    let deadline: Timestamp
    var stage = Stage.ringing
    var legs: [Leg] = []
    /// What the caller sent before anybody answered.
    var callerSignals: [Signal] = []
    var callerMissed: [Delivery] = []
    var callerIsAway = false
    var version: UInt64 = 1 << 20
    var signalCount: UInt64 = 0
    var moves: UInt32 = 0
    /// Who answered, whoever has the call since.
    var answerer: Party?
    var isFaulty = false
    /// Of a call that gave way.
    var survivor: CallID?
    var isForgotten = false

    init(
      id: CallID, number: Int, caller: Party, callee: String, placedAt: Timestamp,
      deadline: Timestamp
    ) {
      self.id = id
      self.number = number
      self.caller = caller
      self.callee = callee
      self.target = callee
      self.placedAt = placedAt
      self.deadline = deadline
    }
  }
}
