package import CallCore

/// How a call comes to the devices that ring for it.
package enum CallRoute: Sendable, Equatable {
  /// They are those of the user who is called.
  case direct
  /// The rules of the user who is called send it on to the user whose devices they are.
  case forwarded(by: Int)
  /// A group is called, and they are those of its members.
  case group(GroupTerms)

  var isDirect: Bool { self == .direct }

  var group: GroupTerms? { if case .group(let terms) = self { terms } else { nil } }

  /// The name of the user who is called, where that is not the one whose devices ring.
  func called(_ roster: Roster) -> String? {
    switch self {
    case .direct: nil
    case .forwarded(let user): roster.userName(user)
    case .group(let terms): terms.name
    }
  }
}

/// A group as one call finds it.
package struct GroupTerms: Sendable, Equatable {
  package var name: String
  package var order: CallGroup.Order
  /// In the order in which they are to ring, where they ring in turn.
  package var members: [Int]
  /// How long each of them rings, where they ring in turn.
  package var turn: Span
  /// Whether the member that is idle longest is known: an earlier call of the group may have ended otherwise than
  /// devices know.
  package var isOrderKnown: Bool

  package init(
    name: String, order: CallGroup.Order, members: [Int], turn: Span, isOrderKnown: Bool = true
  ) {
    self.name = name
    self.order = order
    self.members = members
    self.turn = turn
    self.isOrderKnown = isOrderKnown
  }

  var isInTurn: Bool { order != .together }
}
