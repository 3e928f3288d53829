internal import CallCore
package import CallJudge

/// The rules that histories are judged by; `docs/simulation.md` says what each means. Their names are
/// printed, and stay as they are.
package enum HistoryRule: String, Sendable, CaseIterable {
  case oneWinner = "one winner"
  case winnerStopped = "a winner hears of the end only"
  case oneEnd = "one end"
  case oneStory = "one story"
  case endsHaveCauses = "an end has a cause"
  case oneRecord = "one record of each fact"
  case appendThenSpeak = "append, then speak"
  case versionsGrow = "versions only grow"
  case noInviteAfterStop = "no invite after a stop"
  case noLateInvite = "no invite after the deadline"
  case nothingLost = "nothing accepted is lost"
  case registrationKept = "a registration is kept"
  case nobodyRingsOn = "nobody keeps ringing"
  case callsEnd = "every call ends"
  case timersOnTime = "timers fire on time"
  case commandsAnswered = "every command is answered"
  case sameAnswer = "the same question, the same answer"
  case signalsInPlace = "signals reach the right leg once"
  case signalsInOrder = "signals out of order"
  case unreachableAttached = "unreachable although a device was attached"
  case attachedRing = "an attached device was not rung"
  case noStrangeError = "no error without a reason"
  case newsOnce = "each piece of news once"
  case noPushAfterEnd = "no push after the end"
  case pushInTime = "no push after its deadline"
  case pushedOnce = "each push once"
  case nobodyIsDelayed = "a dead provider delays nobody"
  case cleanUpsWhereWanted = "a clean-up for whom it is meant"
  case noticesOfMissed = "a notice of missed calls only"
  case tokensHaveOneOwner = "a token has one owner"
  case tokensKept = "a token is kept"
  case wokenAreTold = "who is woken is told"
  case attachAnswered = "who attaches for a call is told the truth"
}

package typealias HistoryViolation = Violation<HistoryRule>

/// - Throws: a violation of the rule, unless it holds.
func require(
  _ holds: Bool, _ rule: HistoryRule, _ call: CallID?, _ reason: @autoclosure () -> String
) throws(HistoryViolation) {
  if !holds { throw HistoryViolation(rule, reason(), call: call) }
}
