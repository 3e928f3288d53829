public import CallCore
internal import Crypto
internal import FoundationEssentials

/// Where an edge asks an app's server about each call before it rings, from the file of keys. docs/hooks.md is for
/// the app's developers.
public struct HookSettings: Sendable, Equatable {
  /// What a call comes to when the hook gives no answer. Raw values are those of the file of keys.
  public enum WhenAway: String, Sendable, CaseIterable {
    case allow, refuse
  }

  /// https, or http on the loopback. It may hold a secret, so it is in no log.
  public let url: String
  /// How long a call waits for an answer.
  public let timeout: Span
  public let whenAway: WhenAway
  /// Each signs: the app's server accepts any of them, so that they can be changed without a pause.
  private let secrets: [SymmetricKey]

  public static let timeoutStandard: Span = .milliseconds(500)
  /// The longest stays below the time after which an edge gives a command up.
  static let millisecondsRange = 50...3000
  static let urlBytesMax = 512
  static let secretsMax = 2
  /// As Standard Webhooks ask for.
  static let secretBytes = 24...64

  /// - Parameter secrets: the bytes, decoded.
  package init(
    url: String, secrets: [[UInt8]], timeout: Span = timeoutStandard, whenAway: WhenAway = .allow
  ) {
    self.url = url
    self.timeout = timeout
    self.whenAway = whenAway
    self.secrets = secrets.map { SymmetricKey(data: $0) }
  }

  /// The `webhook-signature` of a message, as Standard Webhooks define it: one for each secret.
  /// - Parameters:
  ///   - id: the `webhook-id`.
  ///   - seconds: the `webhook-timestamp`, since 1970.
  package func signature(id: String, seconds: Int64, body: [UInt8]) -> String {
    let signed = Data("\(id).\(seconds).".utf8) + body
    return secrets.map {
      "v1," + Data(HMAC<SHA256>.authenticationCode(for: signed, using: $0)).base64EncodedString()
    }.joined(separator: " ")
  }
}

extension HookSettings {
  init(_ entry: KeyFile.Hook, _ place: AppKeysError.Place) throws(AppKeysError) {
    guard Self.isURL(entry.url) else {
      throw place.error(
        "the hook's url is not usable",
        "give an https URL of at most \(Self.urlBytesMax) bytes, or an http one at 127.0.0.1, "
          + "[::1] or localhost, without user, password and #")
    }
    guard (1...Self.secretsMax).contains(entry.secrets.count) else {
      throw place.error(
        "the hook has \(entry.secrets.count) secrets",
        "give one, or two while the first is replaced")
    }
    var secrets: [[UInt8]] = []
    for text in entry.secrets {
      let encoded = text.hasPrefix("whsec_") ? String(text.dropFirst(6)) : text
      guard let secret = Data(base64Encoded: encoded), Self.secretBytes.contains(secret.count)
      else {
        throw place.error(
          "a secret of the hook is not base64 of 24 to 64 bytes",
          "make one with: echo whsec_$(openssl rand -base64 32)")
      }
      secrets.append(Array(secret))
    }
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
      url: entry.url, secrets: secrets,
      timeout: milliseconds.map { .milliseconds($0) } ?? Self.timeoutStandard, whenAway: whenAway)
  }

  /// Nothing that is signed for the app may be read on its way, or go to a place that a reader would not expect.
  private static func isURL(_ text: String) -> Bool {
    guard text.utf8.count <= urlBytesMax, text.utf8.allSatisfy({ 0x21...0x7e ~= $0 }),
      let parts = URLComponents(string: text), let host = parts.host, !host.isEmpty,
      parts.user == nil, parts.password == nil, parts.fragment == nil
    else { return false }
    switch parts.scheme {
    case "https": return true
    case "http": return ["127.0.0.1", "::1", "[::1]", "localhost"].contains(host)
    default: return false
    }
  }
}
