/// A user of an app who is no person: calls to it ring its members. The app's server makes it.
public struct CallGroup: Sendable, Equatable {
  /// 1 to 100 users of the same app. One that is a group itself rings nobody.
  public var users: [String]
  public var order: Order
  /// How long each member rings before the next one does; where all ring together it means nothing.
  public var turnSeconds: UInt32

  /// Raw values are those of messages.
  public enum Order: UInt8, Sendable, CaseIterable {
    case together = 0
    /// As listed.
    case inTurn = 1
    /// In turn: first who never had a call of the group, then whose last one ended longest ago. A new owner of the
    /// group's shard knows only of calls that the journal still has.
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
  /// - Parameter group: its name; nil: it is not known here, and is checked elsewhere.
  /// - Throws: `invalidRules`, with what is wrong.
  public func check(of group: String? = nil) throws(CallError) {
    try UserRules.check(users, 1...Self.usersMax, "users", IdentifierRules.isUser)
    try UserRules.check(turnSeconds, Self.turnRange, "turnSeconds")
    if let group, users.contains(where: { $0.hasBytes(of: group) }) {
      throw CallError(.invalidRules, "A group cannot be a member of itself.")
    }
  }
}
