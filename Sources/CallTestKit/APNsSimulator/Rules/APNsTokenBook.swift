public import CallCore

/// The device tokens a server knows: of which app and environment each is, and which are gone.
public struct APNsTokenBook: Sendable {
  public struct Entry: Sendable, Equatable {
    public var environment: APNsEnvironment
    /// Bundle id, with its suffix for tokens of PushKit: a VoIP token is for `….voip` and no other.
    public var topic: String
    /// Tokens of one device share its store of undelivered pushes.
    public var device: String
    /// Why and since when it is gone: `unregistered` or `expiredToken`.
    public var gone: (reason: APNsReason, at: Timestamp)?

    public init(environment: APNsEnvironment, topic: String, device: String) {
      self.environment = environment
      self.topic = topic
      self.device = device
    }

    public static func == (a: Entry, b: Entry) -> Bool {
      a.environment == b.environment && a.topic == b.topic && a.device == b.device
        && a.gone?.reason == b.gone?.reason && a.gone?.at == b.gone?.at
    }
  }

  /// What is done with well-formed tokens that nobody registered.
  public enum Strangers: Sendable {
    /// `BadDeviceToken`.
    case refuse
    /// Taken for a token of whatever it is used for: for load, where there are too many to list.
    case accept
  }

  public var strangers: Strangers
  private var entries: [String: Entry] = [:]

  public init(strangers: Strangers = .refuse) { self.strangers = strangers }

  public subscript(token: String) -> Entry? { entries[token.lowercased()] }

  /// A device got this token. A token that was gone is back.
  public mutating func register(
    _ token: String, topic: String, environment: APNsEnvironment, device: String? = nil
  ) {
    entries[token.lowercased()] = Entry(
      environment: environment, topic: topic, device: device ?? token.lowercased())
  }

  /// The token is gone since `at`: pushes to it are answered with 410. What a sender makes of it
  /// depends on when the device registered with the sender, so any time may be given.
  public mutating func drop(
    _ token: String, at: Timestamp, reason: APNsReason = .unregistered
  ) {
    entries[token.lowercased()]?.gone = (reason, at)
  }

  public mutating func forget(_ token: String) { entries[token.lowercased()] = nil }

  /// Whether a token has the form of one (R22). Its length is opaque, so more than the 64 digits of
  /// today are fine; 200 are the most that any document of Apple ever named.
  package static func isWellFormed(_ token: Substring) -> Bool {
    let digits = token.utf8
    return digits.count >= 64 && digits.count <= 200 && digits.count.isMultiple(of: 2)
      && token.allSatisfy { $0.isASCII && $0.isHexDigit }
  }

  /// What a push for `topic` to this token is answered (R23, R24).
  package func check(
    _ token: String, topic: String, environment: APNsEnvironment
  ) -> APNsResponse {
    guard let entry = entries[token] else {
      return strangers == .accept ? .accepted : APNsResponse(.badDeviceToken)
    }
    // APNs does not know the other environment's tokens at all.
    if entry.environment != environment { return APNsResponse(.badDeviceToken) }
    if entry.topic != topic { return APNsResponse(.deviceTokenNotForTopic) }
    if let gone = entry.gone { return APNsResponse(gone.reason, timestamp: gone.at) }
    return .accepted
  }
}

/// Counts the pushes to each token in the current second (R33). It is emptied each second, which
/// bounds it.
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
