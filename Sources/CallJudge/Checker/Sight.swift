/// The evidence that a judge has of a cluster beside its devices' frames. Rules that need more are not judged.
package struct Sight: OptionSet, Sendable, Hashable {
  package let rawValue: UInt8
  package init(rawValue: UInt8) { self.rawValue = rawValue }

  /// Every record of the shards' journals.
  package static let journal = Sight(rawValue: 1 << 0)
  /// The streams of call records and of events for webhooks, and users' histories.
  package static let streams = Sight(rawValue: 1 << 1)
  /// Registrations, as they are stored.
  package static let registrations = Sight(rawValue: 1 << 2)
  /// Users' rules and names, as they are stored.
  package static let rules = Sight(rawValue: 1 << 3)
  /// The events that clients hand to their apps.
  package static let apps = Sight(rawValue: 1 << 4)
  /// The answers of the app's hook.
  package static let hook = Sight(rawValue: 1 << 5)

  package static let all: Sight = [.journal, .streams, .registrations, .rules, .apps, .hook]
}
