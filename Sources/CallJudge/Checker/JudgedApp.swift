package import CallCore

/// The app whose calls are judged: what is known of its users and devices beside the events.
package struct JudgedApp: Sendable {
  package var name: String
  /// Whether a device only places calls.
  package var onlyPlaces: @Sendable (Who) -> Bool
  /// The display name in a user's token; nil: it has none.
  package var nameInToken: @Sendable (_ user: String) -> String?
  /// The data that a caller's app gives to the callee's apps in a call.
  package var pushData: @Sendable (CallID) -> String
  /// The sender and the number that a signal's text names; nil: it names none.
  package var signal: @Sendable (String) -> (Who, Int)?

  package init(
    name: String, onlyPlaces: @escaping @Sendable (Who) -> Bool,
    nameInToken: @escaping @Sendable (_ user: String) -> String?,
    pushData: @escaping @Sendable (CallID) -> String,
    signal: @escaping @Sendable (String) -> (Who, Int)?
  ) {
    self.name = name
    self.onlyPlaces = onlyPlaces
    self.nameInToken = nameInToken
    self.pushData = pushData
    self.signal = signal
  }
}
