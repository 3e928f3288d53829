public import CallCore

/// Where an edge asks an app's server about each call before it rings, from the file of keys. docs/hooks.md is for
/// the app's developers.
public struct HookSettings: Sendable, Equatable {
  /// The decision on a call when the hook gives no answer. Raw values are those of the file of keys.
  public enum WhenAway: String, Sendable, CaseIterable {
    case allow, refuse
  }

  private let endpoint: SignedEndpoint
  /// How long a call waits for an answer.
  public let timeout: Span
  public let whenAway: WhenAway

  /// https, or http on the loopback. It may hold a secret, so it is in no log.
  public var url: String { endpoint.url }
  public static let timeoutStandard: Span = .milliseconds(500)
  /// The longest stays below the time after which an edge gives a command up.
  static let millisecondsRange = 50...3000

  /// - Parameter secrets: the bytes, decoded.
  package init(
    url: String, secrets: [[UInt8]], timeout: Span = timeoutStandard, whenAway: WhenAway = .allow
  ) {
    self.init(SignedEndpoint(url: url, secrets: secrets), timeout: timeout, whenAway: whenAway)
  }

  private init(_ endpoint: SignedEndpoint, timeout: Span, whenAway: WhenAway) {
    self.endpoint = endpoint
    self.timeout = timeout
    self.whenAway = whenAway
  }

  /// The `webhook-signature` of a message.
  /// - Parameters:
  ///   - id: the `webhook-id`.
  ///   - seconds: the `webhook-timestamp`, since 1970.
  package func signature(id: String, seconds: Int64, body: [UInt8]) -> String {
    endpoint.signature(id: id, seconds: seconds, body: body)
  }
}

extension HookSettings {
  init(_ entry: KeyFile.Hook, _ place: AppKeysError.Place) throws(AppKeysError) {
    let endpoint = try SignedEndpoint(entry.url, entry.secrets, of: "hook", place)
    let milliseconds = entry.timeoutMilliseconds.map(Int64.init)
    if let chosen = entry.timeoutMilliseconds, !Self.millisecondsRange.contains(chosen) {
      let range = Self.millisecondsRange
      throw place.error(
        "the hook's timeoutMilliseconds is \(chosen)",
        "give a whole number from \(range.lowerBound) to \(range.upperBound)")
    }
    guard let whenAway = WhenAway(rawValue: entry.whenAway ?? WhenAway.allow.rawValue) else {
      throw place.error(
        "the hook's whenAway \"\(entry.whenAway ?? "")\" is none",
        "use \"allow\" or \"refuse\", or leave it away")
    }
    self.init(
      endpoint, timeout: milliseconds.map { .milliseconds($0) } ?? Self.timeoutStandard,
      whenAway: whenAway)
  }
}
