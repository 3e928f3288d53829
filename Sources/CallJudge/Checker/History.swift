package import CallCore
package import CallWire

package struct Who: Hashable, Sendable, CustomStringConvertible {
  package var user: String
  package var device: String

  package init(_ user: String, _ device: String) {
    self.user = user
    self.device = device
  }

  /// By bytes, as the cluster compares names.
  package static func == (one: Who, other: Who) -> Bool {
    one.user.hasBytes(of: other.user) && one.device.hasBytes(of: other.device)
  }

  package func hash(into hasher: inout Hasher) {
    user.hashBytes(into: &hasher)
    device.hashBytes(into: &hasher)
  }

  package init(_ party: Party) { self.init(party.user, party.device.text) }
  package init(_ job: PushJob) { self.init(job.user.user, job.device.text) }

  /// In ASCII. Unequal devices have unequal descriptions.
  package var description: String { "\(KeyText.encode(user))/\(KeyText.encode(device))" }

  /// Reads parts of a description, or of a key of the store.
  package init?(encoded user: Substring, _ device: Substring) {
    guard let user = KeyText.decode(user), let device = KeyText.decode(device) else {
      return nil
    }
    self.init(user, device)
  }
}

/// An event, and when it happened by its source's clock.
package struct SeenEvent: Sendable {
  package var at: Timestamp
  package var event: HistoryEvent

  package init(at: Timestamp, _ event: HistoryEvent) {
    self.at = at
    self.event = event
  }
}

/// The events that are judged: what devices send and receive, and what the cluster stores.
package enum HistoryEvent: Sendable {
  case journalled(shard: Int, JournalRecord)
  case stored(Who, present: Bool)
  /// A device has a new connection. The numbers of links are unique.
  case opened(Who, link: Int, edge: String = "")
  case closed(link: Int)
  /// A link is closed at one end, or silent. The device may not have noticed yet.
  case broken(link: Int)
  /// One end of a link was frozen, or bytes are delayed: timeouts of its requests start again.
  case disturbed(link: Int)
  /// A fault of a node; nil: of NATS, or of all lines.
  case trouble(node: String?, from: Timestamp, until: Timestamp)
  case sent(Who, link: Int, ClientFrame)
  case received(Who, link: Int, ServerFrame)
  /// An app hears from its client; nil: nothing that is judged.
  case heard(Who, AppNews?)
  /// The app starts again without state.
  case restarted(Who)
  case push(PushEvent)
  /// The stream of call records has a new message.
  case recorded([CallRecord])
  /// A user's history has a new message, with this number.
  case remembered(UserKey, UInt64, HistoryMessage)
  /// The stream of events for webhooks has a new message.
  case learned([AppEvent])
  /// The store has other rules of a user, or another name; nil: neither.
  case decided(user: String, UserRules?)
  case server(AppServerEvent)

  /// Whether devices, and whoever runs them, see it in any cluster.
  package var isOfDevices: Bool {
    switch self {
    case .opened, .closed, .broken, .disturbed, .trouble, .sent, .received, .heard, .restarted,
      .server:
      true
    case .push(.asked): true
    case .journalled, .stored, .push, .recorded, .remembered, .learned, .decided: false
    }
  }
}

/// The rules that histories are judged by; `docs/simulation.md` says what each means. Their names are
/// printed, and stay as they are.
package enum HistoryRule: String, Sendable, CaseIterable {
  case oneWinner = "one winner"
  case winnerStopped = "a winner hears of the end only"
  case answersCount = "an answer in time counts"
  case winnersTold = "a winner is told that it won"
  case oneEnd = "one end"
  case oneStory = "one story"
  case missedRightly = "a call is missed by whom it rang in vain"
  case endsHaveCauses = "an end has a cause"
  case oneRecord = "one record of each fact"
  case recordOfEachCall = "a record of each call"
  case historyOnBothSides = "history on both sides"
  case historySeen = "a user's devices see its history"
  case learnsOfEachCall = "an app learns of each call"
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
  case signalsArrive = "an accepted signal arrives"
  case unreachableAttached = "unreachable although a device was attached"
  case attachedRing = "an attached device was not rung"
  case placersDoNotRing = "who only places calls is not rung"
  case divertedOnce = "a call goes on to each user once"
  case divertedRing = "a call rings where it goes on"
  case chosenTimeHolds = "a caller's chosen time holds"
  case turnsInOrder = "members of a group have their turns"
  case crossingsMerge = "crossing calls become one"
  case busyInCall = "a user in a call is busy"
  case movesOnce = "a call moves to one device"
  case movesTold = "the other side learns of a move"
  case transfersAsked = "a call is transferred as its device said"
  case transfersTold = "who transfers a call learns what comes of it"
  case consultedEnd = "a call to ask about another ends with that"
  case ongoingSeen = "a user's devices see its calls"
  case rulesKept = "rules are kept"
  case rulesFollowed = "a call goes where rules send it"
  case silenceKept = "who is not to be disturbed is not rung"
  case firstRingFirst = "first devices ring first"
  case placedAsAsked = "a call is placed between whom the app's server named"
  case hookFollowed = "what the hook says is done"
  case listsWhole = "a list of live calls is whole"
  case secondRings = "the second user rings once somebody has answered"
  case secondCallTold = "a second call is told to be one"
  case namesShown = "a caller has the name that is stored"
  case noStrangeError = "no error without a reason"
  case newsOnce = "each piece of news once"
  case noPushAfterEnd = "no push after the end"
  case pushInTime = "no push after its deadline"
  case pushedOnce = "each push once"
  case sleepersAreRung = "whom a provider would have woken is pushed"
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
