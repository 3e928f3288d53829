/// The pushes that a device takes beside those that make it ring. They are fixed when it registers: the SDK that
/// registered counts, not one that was installed later.
public struct PushCapabilities: OptionSet, Sendable, Hashable {
  public var rawValue: UInt32
  public init(rawValue: UInt32) { self.rawValue = rawValue }

  /// Takes `PushPurpose.missed`.
  public static let missed = PushCapabilities(rawValue: 1 << 0)
  /// Takes `PushPurpose.answeredElsewhere`.
  public static let answeredElsewhere = PushCapabilities(rawValue: 1 << 1)
  /// Takes `PushPurpose.cancel`.
  public static let cancel = PushCapabilities(rawValue: 1 << 2)
  /// Takes `PushPurpose.ended`, on its alert token.
  public static let ended = PushCapabilities(rawValue: 1 << 3)
  /// Takes `PushPurpose.missedNotice`, on its alert token.
  public static let missedNotice = PushCapabilities(rawValue: 1 << 4)
}

extension PushCapabilities {
  private static let named: [(name: String, capability: PushCapabilities)] = [
    ("missed", .missed), ("answeredElsewhere", .answeredElsewhere), ("cancel", .cancel),
    ("ended", .ended), ("missedNotice", .missedNotice),
  ]

  /// The names on the wire of all there are.
  public static var allNames: [String] { named.map(\.name) }

  /// The names of those that are set, in the order of `allNames`.
  public var names: [String] { Self.named.filter { contains($0.capability) }.map(\.name) }

  /// nil for an unknown name.
  public init?(name: String) {
    guard let known = Self.named.first(where: { $0.name == name }) else { return nil }
    self = known.capability
  }
}
