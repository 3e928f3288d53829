internal import CallBus
package import CallClient
package import CallCore
package import CallWire

/// A device of a user.
package struct Who: Hashable, Sendable, CustomStringConvertible {
  package var user: String
  package var device: String

  package init(_ user: String, _ device: String) {
    self.user = user
    self.device = device
  }

  /// As the cluster tells them apart.
  package static func == (one: Who, other: Who) -> Bool {
    one.user.hasBytes(of: other.user) && one.device.hasBytes(of: other.device)
  }

  package func hash(into hasher: inout Hasher) {
    user.hashBytes(into: &hasher)
    device.hashBytes(into: &hasher)
  }

  package init(_ party: Party) { self.init(party.user, party.device.text) }

  /// In ASCII: two that are not the same have descriptions that are not the same text either.
  package var description: String { "\(Subjects.keyPart(user))/\(Subjects.keyPart(device))" }

  /// Reads parts of a description, or of a key of the store.
  init?(encoded user: Substring, _ device: Substring) {
    guard let user = Self.decoded(user), let device = Self.decoded(device) else { return nil }
    self.init(user, device)
  }

  /// What `Subjects.keyPart` encoded.
  private static func decoded(_ part: Substring) -> String? {
    var bytes: [UInt8] = []
    var rest = part.utf8
    while let byte = rest.popFirst() {
      guard byte == UInt8(ascii: "_") else {
        bytes.append(byte)
        continue
      }
      guard let value = UInt8(String(Substring(rest.prefix(2))), radix: 16) else { return nil }
      bytes.append(value)
      rest = rest.dropFirst(2)
    }
    return String(validating: bytes, as: UTF8.self)
  }
}

/// What happens in a world and can be judged: what devices say and hear, and what the cluster keeps.
package enum HistoryEvent: Sendable {
  /// A record is in the journal of a shard.
  case journalled(shard: Int, JournalRecord)
  /// A device's registration was written, or removed.
  case stored(Who, present: Bool)
  /// A device has a new connection. Links are numbered, never twice the same.
  case opened(Who, link: Int, edge: String = "")
  case closed(link: Int)
  /// A link is closed at one end, or silent: the device may not know that yet.
  case broken(link: Int)
  /// One end of a link stood still, or bytes are delayed: what waits on it may wait anew.
  case disturbed(link: Int)
  /// Something is, or was, wrong with a node; nil: with NATS, or on all lines.
  case trouble(node: String?, from: Timestamp, until: Timestamp)
  case sent(Who, link: Int, ClientFrame)
  case received(Who, link: Int, ServerFrame)
  /// What the client tells the app.
  case told(Who, ClientEvent)
  /// The app begins anew and remembers nothing.
  case restarted(Who)
  case push(PushEvent)
}

/// Something that must never be.
package struct Violation: Error, Equatable, Sendable, CustomStringConvertible {
  /// The rule's name, stable.
  package var rule: Rule
  package var reason: String
  package var call: CallID?

  package init(_ rule: Rule, _ reason: String, call: CallID? = nil) {
    self.rule = rule
    self.reason = reason
    self.call = call
  }

  package var description: String { "\(rule.rawValue): \(reason)" }

  /// The rules that histories are judged by; `docs/simulation.md` says what each means.
  package enum Rule: String, Sendable, CaseIterable {
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
}
