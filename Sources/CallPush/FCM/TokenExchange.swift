internal import CallCore
internal import CallTelemetry

/// The OAuth 2 exchange of an assertion for an access token (RFC 7523; RFC 6749, 5).
package enum TokenExchange {
  /// Longer-lived tokens are taken for a day.
  static let lifetimeSecondsMax: Int64 = 86_400

  /// The body of the request, form-encoded. An assertion is base64url and dots, which need no
  /// escapes.
  static func body(assertion: String) -> [UInt8] {
    Array(
      "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion=\(assertion)"
        .utf8)
  }

  private struct Success: Decodable {
    var token: String
    var lifetimeSeconds: Int64
    var type: String?
    enum CodingKeys: String, CodingKey {
      case token = "access_token"
      case lifetimeSeconds = "expires_in"
      case type = "token_type"
    }
  }
  private struct Failure: Decodable {
    var error: String
  }

  /// What an answer means. Its texts hold no token: of an error only a known word is passed on.
  package static func judge(_ reply: ProviderReply) -> AccessTokenMachine.Exchanged {
    switch reply {
    case .notSent(let why), .unknown(let why):
      return .failed(reason: "access token: \(why)", lasting: false)
    case .answer(let answer):
      switch answer.status {
      case 200: return success(answer.body)
      case 400, 401, 403:
        let word = BoundedJSON.decode(Failure.self, answer.body)?.error
        return .failed(
          reason: "access token: \(ProviderWord.clean(word) ?? "HTTP \(answer.status)")",
          lasting: true)
      default:
        return .failed(reason: "access token: HTTP \(answer.status)", lasting: false)
      }
    }
  }

  private static func success(_ body: [UInt8]) -> AccessTokenMachine.Exchanged {
    guard let read = BoundedJSON.decode(Success.self, body), read.lifetimeSeconds > 0,
      (1...8192).contains(read.token.utf8.count),
      read.token.isGraphicASCII,
      read.type.map({ $0.lowercased() == "bearer" }) ?? true
    else { return .failed(reason: "access token: the answer is malformed", lasting: false) }
    return .token(
      read.token, lifetime: .seconds(min(read.lifetimeSeconds, lifetimeSecondsMax)))
  }
}

/// Words of providers, as they may stand in our logs.
package enum ProviderWord {
  /// The word if it is a short name such as `invalid_grant`, `UNREGISTERED` or
  /// `message.android.ttl`; else nil. So whatever a provider quotes, no token gets through.
  package static func clean(_ word: String?) -> String? {
    guard let word, (1...60).contains(word.utf8.count), word.isAlphanumericASCII(or: ".[]_")
    else { return nil }
    return word
  }
}
