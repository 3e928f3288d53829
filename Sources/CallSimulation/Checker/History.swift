internal import CallBus
package import CallClient
package import CallCore
package import CallWire

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
    guard let user = Subjects.keyText(user), let device = Subjects.keyText(device) else {
      return nil
    }
    self.init(user, device)
  }
}

/// What happens in a world and can be judged: what devices say and hear, and what the cluster keeps.
package enum HistoryEvent: Sendable {
  case journalled(shard: Int, JournalRecord)
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
  case told(Who, ClientEvent)
  /// The app begins anew and remembers nothing.
  case restarted(Who)
  case push(PushEvent)
}
