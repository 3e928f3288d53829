import CallCore

extension FaultyTwin {
  /// The faults of the twin, each in every `faultEvery`th call that gives it the chance.
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
    /// Asks the members of a group in the reverse order.
    case ringsOutOfOrder
    /// Rings the next member of a group while it is the turn of another one.
    case cutsATurnShort
    /// Rings no member when one has given the call on.
    case forgetsTheNextMember
    /// Tells a member whose turn is over of a missed call.
    case tellsAMemberThatItMissed
    /// Does not tell the device that handed a call over who has it.
    case forgetsTheTransferor
    /// Does not tell the other side that it talks to somebody else.
    case forgetsWhoStays
    /// Rings for a transfer and does not say who hands the call over.
    case namesNoTransferor
    /// Lets the third user's other devices ring on.
    case ringsOnAfterATransfer
    /// Does not tell the device that hands a call over that it was declined.
    case keepsADeclineToItself
    /// Passes signals on to the device that has handed the call over.
    case informsTheTransferor
    /// Says to a user who handed a call over that it ended with the others'.
    case keepsATransferFromHistory
    /// Does not say of a second call that its user is in one.
    case hidesSecondCalls
    /// Says so of users who are in no call.
    case inventsSecondCalls
    /// Rings users who take no second call.
    case ringsTheBusy
    /// Is busy for users who are in no call.
    case refusesTheFree
    /// Rings all of a user's devices for a transfer, though one of them was asked before.
    case ringsAllThatWereNotAsked
    /// Rings the device that was asked before, and does not say in which call.
    case namesNoConsultation
    /// Lets the call in which a device was asked go on.
    case keepsTheConsultation
    /// Shows no device an ongoing call, or its end, or with somebody else.
    case hidesOngoing, keepsOngoing, showsAnotherPeer
    /// Does not do what the app's server said.
    case ignoresTheHook
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
    /// The signals that it sent before anybody answered.
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
    /// The user whose devices ring: the callee, or the user to whom its rules send the call.
    var target: String
    let placedAt: Timestamp
    let deadline: Timestamp
    var stage = Stage.ringing
    var legs: [Leg] = []
    /// The signals that the caller sent before anybody answered.
    var callerSignals: [Signal] = []
    var callerMissed: [Delivery] = []
    var callerIsAway = false
    var version: UInt64 = 1 << 20
    var signalCount: UInt64 = 0
    var moves: UInt32 = 0
    /// Who answered, whoever has the call since, and when.
    var answerer: Party?
    var answeredAt: Timestamp?
    /// The user who is called is in another call.
    var isSecond = false
    /// The caller's display name, as the app's server has said.
    var callerName = ""
    /// One side is handed over, or was to be.
    var transfer: TransferState?
    var isFaulty = false
    /// The call that goes on, where this one gave way.
    var survivor: CallID?
    var isForgotten = false
    /// Members of a group whose turn comes yet, how many turns have begun, and how long each is.
    var queue: [String] = []
    var turns = 0
    var turn = Span.seconds(0)

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
