/// A call in the history of one of its users.
public struct HistoryEntry: Sendable, Equatable {
  public var call: CallID
  /// The callee's user id: with `call` the call's address.
  public var callee: String
  /// Whether the user placed it; else it was to the user. A call to oneself counts as placed.
  public var isPlaced: Bool
  /// The user at the other side.
  public var peer: String
  /// The display name of a peer that placed the call; empty: it has none.
  public var peerName: String
  /// The device of the user that placed or answered the call; nil: none answered.
  public var device: DeviceID?
  public var deviceName: String
  public var placedAt: Timestamp
  /// nil: the call was not answered.
  public var answeredAt: Timestamp?
  public var endedAt: Timestamp
  public var reason: EndReason
  /// The call was to the user, and was neither answered nor declined. It is unread until the user reads the history.
  public var isMissed: Bool
  public var video: Bool
  /// The user from whom the call was diverted to this one; empty: it was placed to this one.
  public var divertedBy: String
  /// The call left the user and went on to others.
  public var wentOn: Bool
  /// The users to whom the call went on from this one, or, if this one placed it, from the callee and further. Members
  /// of a group are not named.
  public var wentTo: [String] = []
  /// The user who answered in place of the callee, if that is neither this one nor its peer; else empty.
  public var answeredBy: String
  public init(
    call: CallID, callee: String, isPlaced: Bool, peer: String, peerName: String = "",
    device: DeviceID? = nil, deviceName: String = "", placedAt: Timestamp,
    answeredAt: Timestamp? = nil, endedAt: Timestamp, reason: EndReason, isMissed: Bool = false,
    video: Bool = false, divertedBy: String = "", wentOn: Bool = false, answeredBy: String = ""
  ) {
    self.answeredBy = answeredBy
    self.divertedBy = divertedBy
    self.wentOn = wentOn
    self.call = call
    self.callee = callee
    self.isPlaced = isPlaced
    self.peer = peer
    self.peerName = peerName
    self.device = device
    self.deviceName = deviceName
    self.placedAt = placedAt
    self.answeredAt = answeredAt
    self.endedAt = endedAt
    self.reason = reason
    self.isMissed = isMissed
    self.video = video
  }
}

/// One message of a user's history in the store.
public enum HistoryMessage: Sendable, Equatable {
  case entry(HistoryEntry)
  /// The user has read the history up to here.
  case read(upTo: HistoryCursor)
}

/// A place in a user's history: the store's number of a message. A later one is greater. Devices get it as opaque text.
public struct HistoryCursor: Sendable, Hashable, Comparable {
  /// Before the first message.
  public static let start = HistoryCursor(0)

  public var sequence: UInt64
  public init(_ sequence: UInt64) { self.sequence = sequence }

  /// - Returns: nil for a text that is no cursor's.
  public init?(text: String) {
    guard text.utf8.count <= 13, let sequence = UInt64(text, radix: 36),
      String(sequence, radix: 36) == text
    else { return nil }
    self.init(sequence)
  }

  public var text: String { String(sequence, radix: 36) }

  public static func < (one: Self, other: Self) -> Bool { one.sequence < other.sequence }
}
