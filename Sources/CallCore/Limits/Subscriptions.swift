/// The information that an app wants about its calls, beyond the calls themselves. It stands in a call's placing, since
/// the call's shard does not know the apps' terms. Raw values are those of the journal and of commands; bits that a
/// version does not know are kept.
public struct Subscriptions: OptionSet, Sendable, Hashable {
  public let rawValue: UInt8
  public init(rawValue: UInt8) { self.rawValue = rawValue }

  /// Each call leaves entries in the histories of its users.
  public static let history = Subscriptions(rawValue: 1)
  /// Its server learns of each call by webhooks.
  public static let webhooks = Subscriptions(rawValue: 2)
}
