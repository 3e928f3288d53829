package import CallCore
import CallJudge

/// What devices were told of a call, with which the app's webhooks and its users' histories must agree.
package struct CallFate: Sendable, Equatable {
  package var call: CallID
  /// The device that placed it.
  package var caller: Int
  /// The user who was called, by the number in the roster.
  package var callee: Int
  /// The cluster has confirmed the call to its caller.
  package var isAccepted = false
  /// The caller was told that a device alerts its user.
  package var hasRung = false
  /// The device that answered; nil: nobody was told of an answer.
  package var answeredBy: Int?
  /// Another device may have taken the call over since.
  package var mayHaveMoved = false
  /// How it ended, as the caller was told; nil: the caller does not know.
  package var reason: EndReason?
  /// A device of the callee was told of that end as of a missed call.
  package var isToldMissed = false
  /// The user's rules sent the call on.
  package var wasForwarded = false

  package init(call: CallID, caller: Int, callee: Int) {
    self.call = call
    self.caller = caller
    self.callee = callee
  }

  /// Whether nobody can have answered: the call ended in a way that only unanswered calls do.
  package var excludesAnswer: Bool {
    switch reason {
    case .hungUp, .failed, nil: false
    case .answeredElsewhere, .declined, .cancelled, .unanswered, .busy, .unreachable, .glare,
      .moved:
      answeredBy == nil
    }
  }
}

extension CallRecord {
  var fate: CallFate {
    var fate = CallFate(
      call: facts.call, caller: facts.caller,
      callee: facts.forwarder ?? roster.user(of: facts.callees.lowerBound))
    fate.wasForwarded = facts.forwarder != nil
    fate.isAccepted = accepted || caller.wasNotified
    fate.hasRung = hasRungAtCaller
    fate.answeredBy = answeredBy ?? winners.first?.device
    fate.mayHaveMoved = puller != nil || callees.contains { $0.pulls }
    fate.reason = caller.end?.reason
    fate.isToldMissed = callees.contains {
      $0.stop?.missed == true && $0.stop?.reason == fate.reason
    }
    return fate
  }
}
