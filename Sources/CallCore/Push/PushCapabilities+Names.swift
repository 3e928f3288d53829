extension PushCapabilities {
  private static let named: [(name: String, capability: PushCapabilities)] = [
    ("missed", .missed), ("answeredElsewhere", .answeredElsewhere), ("cancel", .cancel),
    ("ended", .ended), ("missedNotice", .missedNotice),
  ]

  /// The names on the wire of all there are.
  public static var allNames: [String] { named.map(\.name) }

  /// The names of those that are set, in the order of `allNames`.
  public var names: [String] { Self.named.filter { contains($0.capability) }.map(\.name) }

  /// nil for a name that nobody knows.
  public init?(name: String) {
    guard let known = Self.named.first(where: { $0.name == name }) else { return nil }
    self = known.capability
  }
}
