/// A user that stands for a group of an app's users: calls to it ring the members. The app's server makes it.
public struct CallGroup: Sendable, Equatable {
  /// The members: 1 to 100 users of the same app. A member that is a group itself does not ring.
  public var users: [String]
  public var order: Order
  /// How long each member rings before the next one does; without meaning where all ring together.
  public var turnSeconds: UInt32

  /// Raw values are those of messages.
  public enum Order: UInt8, Sendable, CaseIterable {
    case together = 0
    /// As listed.
    case inTurn = 1
    /// In turn: members who never had a call of the group come first, then the one whose last call ended longest ago. A
    /// new owner of the group's shard knows only the calls that the journal still has.
    case longestIdle = 2

    public var name: String { "\(self)" }
  }

  public static let usersMax = 100
  public static let turnRange: ClosedRange<UInt32> = 5...60
  public static let turnStandard: UInt32 = 15

  public init(
    users: [String], order: Order = .together, turnSeconds: UInt32 = CallGroup.turnStandard
  ) {
    self.users = users
    self.order = order
    self.turnSeconds = turnSeconds
  }

  /// Checks sizes and names.
  /// - Parameter group: its own name; nil: that is not known here, and is checked elsewhere.
  /// - Throws: `invalidRules`, with the reason.
  public func check(of group: String? = nil) throws(CallError) {
    try UserRules.check(users, 1...Self.usersMax, "users", IdentifierRules.isUser)
    try UserRules.check(turnSeconds, Self.turnRange, "turnSeconds")
    if let group, users.contains(where: { $0.hasBytes(of: group) }) {
      throw CallError(.invalidRules, "A group cannot be a member of itself.")
    }
  }
}
