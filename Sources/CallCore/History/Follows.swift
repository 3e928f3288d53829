/// What an app wants of each of its calls after its end. It stands in a call's placing, since the call's shard does not
/// know the apps' terms.
public struct Follows: OptionSet, Sendable, Hashable {
  public let rawValue: UInt8
  public init(rawValue: UInt8) { self.rawValue = rawValue }

  /// Entries in the histories of both users.
  public static let history = Follows(rawValue: 1)
}

/// What is to be stored of an ended call, each part in a store of its own.
public struct StoredParts: OptionSet, Sendable, Hashable {
  public let rawValue: UInt8
  public init(rawValue: UInt8) { self.rawValue = rawValue }

  /// The call's record, for operators.
  public static let record = StoredParts(rawValue: 1)
  /// The entries in the users' histories.
  public static let history = StoredParts(rawValue: 2)
}
