package import CallCore
import CallJudge

/// A call's fate, as devices saw it. The app's webhooks and its users' histories must agree with it.
package struct CallFate: Sendable, Equatable {
  package var call: CallID
  /// The device that placed it.
  package var caller: Int
  /// The name of the user who was called.
  package var callee: String
  /// The cluster has confirmed the call to its caller.
  package var isAccepted = false
  /// The caller was notified that a device alerts its user.
  package var hasRung = false
  /// The device that answered; nil: no device knows of an answer.
  package var answeredBy: Int?
  /// Another device may have taken the call over since.
  package var mayHaveMoved = false
  /// How it ended, as the caller knows; nil: the caller does not know.
  package var reason: EndReason?
  /// The users of whom a device rang and was notified of that end as of a missed call.
  package var missedBy: Set<Int> = []
  /// The users to whom it went on, and of whom a device was notified that another user's has answered.
  package var outrung: Set<Int> = []
  /// It went on to other users than the one who was called.
  package var wentOn = false
  /// One side was handed over, or was to be.
  package var transfer: Transfer?

  package struct Transfer: Sendable, Equatable {
    package var terms: TransferTerms
    /// The device that has the side.
    package var takenBy: Int?
    /// Why it was not taken. nil beside a nil `takenBy`: no device knows what became of it.
    package var failure: EndReason?

    package init(terms: TransferTerms, takenBy: Int? = nil, failure: EndReason? = nil) {
      self.terms = terms
      self.takenBy = takenBy
      self.failure = failure
    }
  }

  package init(call: CallID, caller: Int, callee: String) {
    self.call = call
    self.caller = caller
    self.callee = callee
  }

  /// Whether the call was certainly unanswered: it ended in a way that only unanswered calls do.
  package var excludesAnswer: Bool {
    switch reason {
    case .hungUp, .failed, .transferred, nil: false
    case .answeredElsewhere, .declined, .cancelled, .unanswered, .busy, .unreachable, .glare,
      .moved:
      answeredBy == nil
    }
  }
}

extension CallRecord {
  /// The user who was called, whoever's devices ring.
  var calleeName: String {
    facts.route.called(roster) ?? roster.userName(roster.user(of: facts.callees.lowerBound))
  }

  var fate: CallFate {
    var fate = CallFate(call: facts.call, caller: facts.caller, callee: calleeName)
    fate.wentOn = !facts.route.isDirect
    fate.isAccepted = accepted || caller.wasNotified
    fate.hasRung = hasRungAtCaller
    fate.answeredBy = answeredBy ?? winners.first?.device
    fate.mayHaveMoved = puller != nil || callees.contains { $0.pulls }
    let winner = calleesWinner
    let sides = [true, false].compactMap { side(ofCaller: $0, winner: winner) }
    fate.reason =
      taker == nil
      ? caller.end?.reason : sides.compactMap { record(of: $0)?.end?.reason }.first
    if let transfer, transfer.asked != nil {
      fate.transfer = CallFate.Transfer(
        terms: transfer.terms, takenBy: taker, failure: transfer.failure?.end.reason)
    }
    for callee in callees
    where callee.stop?.missed == true && callee.stop?.reason == fate.reason {
      fate.missedBy.insert(roster.user(of: callee.device))
    }
    for callee in callees where fate.wentOn && transfer == nil {
      let user = roster.user(of: callee.device)
      guard let stop = callee.stop, stop.reason == .answeredElsewhere, let by = stop.by,
        roster.user(of: by) != user, roster.userName(user) != fate.callee
      else { continue }
      fate.outrung.insert(user)
    }
    return fate
  }
}
