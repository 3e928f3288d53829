package import CallCore

/// Pushes that APNs stores for unreachable devices: the last one of each bundle and device (R34).
package struct APNsShelf: Sendable {
  /// Pushes that were discarded: for an unreachable device, with an expiration of 0.
  package private(set) var dropped = 0
  /// Pushes that a later one for the same bundle replaced.
  package private(set) var replaced = 0
  /// Pushes that expired while they were kept.
  package private(set) var expired = 0
  private var away: Set<String> = []
  private var kept: [Place: APNsPush] = [:]

  private struct Place: Hashable {
    var device: String
    var bundle: String
  }

  package init() {}

  package mutating func leave(_ device: String) { away.insert(device) }

  /// A device is back.
  /// - Returns: what was kept for it and is not expired, the oldest first.
  package mutating func comeBack(_ device: String, now: Timestamp) -> [APNsPush] {
    away.remove(device)
    if kept.isEmpty { return [] }
    var pushes: [APNsPush] = []
    for (place, push) in kept where place.device == device {
      kept[place] = nil
      if let expiration = push.expiration, expiration < now.microseconds / 1_000_000 {
        expired += 1
      } else {
        pushes.append(push)
      }
    }
    return pushes.sorted { $0.at < $1.at }
  }

  /// An accepted push.
  /// - Returns: whether the device gets it now.
  package mutating func delivers(_ push: APNsPush, to device: String) -> Bool {
    guard away.contains(device) else { return true }
    if push.expiration == 0 {
      dropped += 1
    } else if kept.updateValue(push, forKey: Place(device: device, bundle: push.bundle)) != nil {
      replaced += 1
    }
    return false
  }
}
