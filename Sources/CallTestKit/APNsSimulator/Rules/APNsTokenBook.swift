public import CallCore

/// The registered device tokens, with app and environment of each, and those that are gone.
public struct APNsTokenBook: Sendable {
  public struct Entry: Sendable, Equatable {
    public var environment: APNsEnvironment
    /// The bundle id, with its suffix for a token of PushKit. A VoIP token is valid for `….voip` only.
    public var topic: String
    /// Tokens of one device share its store of undelivered pushes.
    public var device: String
    /// Why and since when it is gone: `unregistered` or `expiredToken`.
    public var gone: APNsResponse?
  }

  /// The treatment of well-formed tokens that are not registered.
  public enum Strangers: Sendable {
    /// `BadDeviceToken`.
    case refuse
    /// Accepts such a token for any topic. For load tests, whose tokens are too many to list.
    case accept
  }

  public var strangers: Strangers
  private var entries: [String: Entry] = [:]

  public init(strangers: Strangers = .refuse) { self.strangers = strangers }

  public subscript(token: String) -> Entry? { entries[token.lowercased()] }

  /// Registers a token of a device. A token that was gone is valid again.
  public mutating func register(
    _ token: String, topic: String, environment: APNsEnvironment, device: String? = nil
  ) {
    entries[token.lowercased()] = Entry(
      environment: environment, topic: topic, device: device ?? token.lowercased())
  }

  /// Marks a token as gone since `at`: pushes to it are answered with 410. Any time is allowed, since its meaning for a
  /// sender depends on the time of the registration.
  public mutating func drop(_ token: String, at: Timestamp, reason: APNsReason = .unregistered) {
    entries[token.lowercased()]?.gone = APNsResponse(reason, timestamp: at)
  }

  public mutating func forget(_ token: String) { entries[token.lowercased()] = nil }

  /// Whether the text has the form of a token (R22). The length is not fixed, so more than the 64 digits of today are
  /// valid, up to 200, the largest number in any document of Apple.
  package static func isWellFormed(_ token: Substring) -> Bool {
    let digits = token.utf8
    return digits.count >= 64 && digits.count <= 200 && digits.count.isMultiple(of: 2)
      && token.allSatisfy { $0.isASCII && $0.isHexDigit }
  }

  /// The answer to a push for `topic` to this token (R23, R24).
  package func check(_ token: String, topic: String, environment: APNsEnvironment) -> APNsResponse {
    guard let entry = entries[token] else {
      return strangers == .accept ? .accepted : APNsResponse(.badDeviceToken)
    }
    // APNs does not know tokens of the other environment.
    if entry.environment != environment { return APNsResponse(.badDeviceToken) }
    if entry.topic != topic { return APNsResponse(.deviceTokenNotForTopic) }
    return entry.gone ?? .accepted
  }
}

/// Counts the pushes to each token in the current second (R33). It is cleared each second, which bounds it.
package struct TokenRate: Sendable {
  private var second: Int64 = .min
  private var counts: [String: Int] = [:]

  package init() {}

  /// - Returns: whether this push is one too many.
  package mutating func isExceeded(by token: String, limit: Int, now: Timestamp) -> Bool {
    let second = now.microseconds / 1_000_000
    if second != self.second {
      self.second = second
      counts.removeAll(keepingCapacity: true)
    }
    let count = counts[token, default: 0] + 1
    counts[token] = count
    return count > limit
  }
}

/// The pushes that APNs stores for unreachable devices: the last one per bundle and device (R34).
package struct APNsShelf: Sendable {
  /// Pushes that were discarded: for an unreachable device, with an expiration of 0.
  package private(set) var dropped = 0
  /// Pushes that a later one for the same bundle replaced.
  package private(set) var replaced = 0
  /// Pushes that expired while they were kept.
  package private(set) var expired = 0
  private var away: Set<String> = []
  /// By device, then by bundle.
  private var kept: [String: [String: APNsPush]] = [:]

  package init() {}

  package mutating func leave(_ device: String) { away.insert(device) }

  /// A device is reachable again.
  /// - Returns: its stored pushes that have not expired, the oldest first.
  package mutating func comeBack(_ device: String, now: Timestamp) -> [APNsPush] {
    away.remove(device)
    let pushes = kept.removeValue(forKey: device)?.values.sorted { $0.at < $1.at } ?? []
    let valid = pushes.filter { ($0.expiration ?? .max) >= now.microseconds / 1_000_000 }
    expired += pushes.count - valid.count
    return valid
  }

  /// An accepted push.
  /// - Returns: whether the device gets it now.
  package mutating func delivers(_ push: APNsPush, to device: String) -> Bool {
    guard away.contains(device) else { return true }
    if push.expiration == 0 {
      dropped += 1
    } else if kept[device, default: [:]].updateValue(push, forKey: push.bundle) != nil {
      replaced += 1
    }
    return false
  }
}
