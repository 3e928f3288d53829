internal import CallCore
internal import CallTelemetry

/// What FCM's answers mean: its whole table of errors, as a function
/// (firebase.google.com/docs/reference/fcm/rest/v1/ErrorCode; …/docs/cloud-messaging/error-codes).
package enum FCMVerdict {
  /// After which a quota is asked for again where the answer names no time.
  static let quotaPause = Span.seconds(60)

  package static func judge(_ reply: ProviderReply, _ context: AttemptContext) -> AttemptVerdict {
    switch reply {
    case .notSent(let why): return context.retry(reason: why)
    case .unknown(let why): return context.inDoubt(why)
    case .answer(let answer): return judge(answer, context)
    }
  }

  static func judge(_ answer: ProviderAnswer, _ context: AttemptContext) -> AttemptVerdict {
    if (200..<300).contains(answer.status) {
      // Taken, even where we cannot read what it is called: a repetition would ring twice.
      return .done(.accepted, name: name(answer.body))
    }
    let error = FCMError(answer.body)
    let reason = error.word ?? "HTTP \(answer.status)"
    switch answer.status {
    case 400: return invalid(error, reason)
    case 401:
      // Of APNs or Web Push credentials that the Firebase project holds, not of our token.
      if error.code == "THIRD_PARTY_AUTH_ERROR" { return .done(.rejected(reason: reason)) }
      return context.renewed ? .done(.rejected(reason: reason)) : .renew(reason: reason)
    // The token is another sender's, or the account may not send: both for an operator.
    case 403: return .done(.rejected(reason: reason))
    case 404:
      // Any other 404 is of a wrong project or address, and says nothing of the token.
      return error.code == "UNREGISTERED"
        ? .done(.tokenGone(at: nil)) : .done(.rejected(reason: reason))
    case 429:
      return context.retry(after: context.retryAfter(answer) ?? quotaPause, reason: reason)
    case 408: return context.retry(reason: reason)
    case 500...599: return context.retry(after: context.retryAfter(answer), reason: reason)
    default: return .done(.rejected(reason: reason))
    }
  }

  /// FCM says INVALID_ARGUMENT of a token that cannot be one, and of a message that it cannot read.
  /// Only what points at the token and at nothing else costs a token.
  private static func invalid(_ error: FCMError, _ reason: String) -> AttemptVerdict {
    guard error.code == "INVALID_ARGUMENT" || error.status == "INVALID_ARGUMENT" else {
      return .done(.rejected(reason: reason))
    }
    if !error.fields.isEmpty {
      if error.fields.allSatisfy({ $0 == "message.token" }) { return .done(.tokenGone(at: nil)) }
      let field = ProviderWord.clean(error.fields.first { $0 != "message.token" })
      return .done(.rejected(reason: field.map { "\(reason): \($0)" } ?? reason))
    }
    let blamesToken =
      error.code == "INVALID_ARGUMENT"
      && error.message.lowercased().contains("registration token")
    return .done(blamesToken ? .tokenGone(at: nil) : .rejected(reason: reason))
  }

  private struct Success: Decodable {
    var name: String
  }

  /// `projects/P/messages/M`.
  private static func name(_ body: [UInt8]) -> String? {
    guard let name = BoundedJSON.decode(Success.self, body)?.name, name.utf8.count <= 256,
      name.utf8.allSatisfy({ $0 > 32 && $0 < 127 })
    else { return nil }
    return name
  }
}

/// The error object of Google's APIs, as far as it was readable.
struct FCMError: Sendable, Equatable {
  /// Of the whole API: `INVALID_ARGUMENT`, `NOT_FOUND`.
  var status: String?
  /// FCM's own: `UNREGISTERED`.
  var code: String?
  var message = ""
  /// The fields that a `BadRequest` complains of.
  var fields: [String] = []

  /// FCM's word for it, else the API's.
  var word: String? { ProviderWord.clean(code) ?? ProviderWord.clean(status) }

  private struct Body: Decodable {
    struct Violation: Decodable {
      var field: String?
    }
    struct Detail: Decodable {
      var type: String?
      var errorCode: String?
      var fieldViolations: [Violation]?
      enum CodingKeys: String, CodingKey {
        case type = "@type"
        case errorCode, fieldViolations
      }
    }
    struct Failure: Decodable {
      var status: String?
      var message: String?
      var details: [Detail]?
    }
    var error: Failure
  }

  /// Of anything else than an error object nothing is known.
  init(_ body: [UInt8]) {
    guard let error = BoundedJSON.decode(Body.self, body)?.error else { return }
    status = error.status
    message = error.message ?? ""
    for detail in error.details ?? [] {
      guard let type = detail.type else { continue }
      if type.hasSuffix("google.firebase.fcm.v1.FcmError") { code = detail.errorCode }
      if type.hasSuffix("google.rpc.BadRequest") {
        fields += (detail.fieldViolations ?? []).map { $0.field ?? "" }
      }
    }
  }
}
