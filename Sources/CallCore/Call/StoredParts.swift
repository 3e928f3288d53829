/// The parts of an ended call that are stored outside its journal, each in a stream of its own. Once a call has all
/// parts that are wanted of it, its journal says so (`JournalEntry.Change.recorded`), and no later owner stores them
/// again.
public struct StoredParts: OptionSet, Sendable, Hashable {
  public let rawValue: UInt8
  public init(rawValue: UInt8) { self.rawValue = rawValue }

  /// Its record, for operators.
  public static let record = StoredParts(rawValue: 1)
  /// Its events, for the app's webhooks.
  public static let events = StoredParts(rawValue: 2)
  /// Its entries in the users' histories.
  public static let history = StoredParts(rawValue: 4)
}
