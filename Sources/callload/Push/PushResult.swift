package import CallCore
package import Histogram

package struct PushResult: Sendable {
  package var sleeping = 0
  /// That reached the provider, by purpose. Alike ones are counted each.
  package var pushes: [PushPurpose: Int] = [:]
  /// Rings after the device could know of the end, and clean-ups more than a second after it.
  package var late: [PushPurpose: Int] = [:]
  /// The provider's answers, by its word for them: "200", "BadDeviceToken"…
  package var answers: [String: Int] = [:]
  /// Intended time of place → the ring push is at the provider. Microseconds.
  package var toProvider = LatencyBook.histogram()
  /// Intended time of place → a device that the push woke is attached.
  package var toAttached = LatencyBook.histogram()
  /// Clean-ups at the provider, by the capability that the registration has for them, or "none".
  package var cleanUpsSent: [String: Int] = [:]
  /// Of those, what the device's reader made sense of.
  package var cleanUpsRead: [String: Int] = [:]
  /// Rings that came when the call no longer rang: the device shows nothing.
  package var expired = 0
  package var woken = 0
  package var neverWoken = 0
  package var wokenLate = 0
  /// Declined, or busy, with what the push allows.
  package var actedByPush = 0
  package var unreadable = 0

  package init() {}

  package var total: Int { pushes.values.reduce(0, +) }
}
