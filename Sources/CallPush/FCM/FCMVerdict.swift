internal import CallCore
internal import CallWire

/// The meaning of FCM's answers, from its table of errors (firebase.google.com/docs/reference/fcm/rest/v1/ErrorCode;
/// …/docs/cloud-messaging/error-codes).
package enum FCMVerdict {
  /// The wait after an exceeded quota if the answer names none.
  static let quotaPause = Span.seconds(60)

  package static func judge(_ reply: ProviderReply, _ context: AttemptContext) -> AttemptVerdict {
    context.judge(
      reply, quotaPause: quotaPause,
      reason: { FCMError($0.body).word ?? "HTTP \($0.status)" }, other: { judge($0, context) })
  }

  private static func judge(_ answer: ProviderAnswer, _ context: AttemptContext) -> AttemptVerdict {
    if (200..<300).contains(answer.status) {
      // Accepted, even if its name cannot be read: a retry would ring twice.
      return .done(.accepted, name: name(answer.body))
    }
    let error = FCMError(answer.body)
    let reason = error.word ?? "HTTP \(answer.status)"
    switch answer.status {
    case 400: return invalid(error, reason, context)
    case 401:
      // Concerns the APNs or Web Push credentials of the Firebase project, not our token.
      if error.code == "THIRD_PARTY_AUTH_ERROR" { return context.refused(reason) }
      return context.renewed ? context.refused(reason) : .renew(reason: reason)
    case 404:
      // Any other 404 means a wrong project or address, and nothing about the token.
      return error.code == "UNREGISTERED" ? .done(.tokenGone(at: nil)) : context.refused(reason)
    case 403:
      // The token belongs to another sender. Or the account may not send, and an operator must act.
      return error.code == "SENDER_ID_MISMATCH"
        ? .tokenRefused(.init(reason)) : context.refused(reason)
    // The same message gets the same answer.
    case 413: return .done(.rejected(reason: reason))
    // Says nothing of the token: a redirect, a fault of ours, or a server in between.
    default: return context.refused(reason)
    }
  }

  /// FCM answers INVALID_ARGUMENT to a malformed token, and to a malformed message. The token is refused only if the
  /// error names the token and nothing else.
  private static func invalid(
    _ error: FCMError, _ reason: String, _ context: AttemptContext
  ) -> AttemptVerdict {
    guard error.code == "INVALID_ARGUMENT" || error.status == "INVALID_ARGUMENT" else {
      return context.refused(reason)
    }
    if !error.fields.isEmpty {
      if error.fields.allSatisfy({ $0 == "message.token" }) {
        return .tokenRefused(.init(reason))
      }
      let field = ProviderWord.clean(error.fields.first { $0 != "message.token" })
      return .done(.rejected(reason: field.map { "\(reason): \($0)" } ?? reason))
    }
    let blamesToken =
      error.code == "INVALID_ARGUMENT"
      && error.message.lowercased().contains("registration token")
    return blamesToken ? .tokenRefused(.init(reason)) : .done(.rejected(reason: reason))
  }

  /// `projects/P/messages/M`.
  private static func name(_ body: [UInt8]) -> String? {
    guard let name = PayloadValue(json: body)?["name"]?.text, name.utf8.count <= 256,
      name.isGraphicASCII
    else { return nil }
    return name
  }
}

/// The error object of Google's APIs, as far as it is readable.
struct FCMError: Sendable, Equatable {
  /// The API's status: `INVALID_ARGUMENT`, `NOT_FOUND`.
  var status: String?
  /// FCM's own code: `UNREGISTERED`.
  var code: String?
  var message = ""
  /// The invalid fields that a `BadRequest` lists.
  var fields: [String] = []

  /// FCM's code, else the API's status.
  var word: String? { ProviderWord.clean(code) ?? ProviderWord.clean(status) }

  /// All members are empty if the body is not an error object.
  init(_ body: [UInt8]) {
    guard let error = PayloadValue(json: body)?["error"] else { return }
    status = error["status"]?.text
    message = error["message"]?.text ?? ""
    for detail in error["details"]?.list ?? [] {
      guard let type = detail["@type"]?.text else { continue }
      if type.hasSuffix("google.firebase.fcm.v1.FcmError") { code = detail["errorCode"]?.text }
      if type.hasSuffix("google.rpc.BadRequest") {
        fields += (detail["fieldViolations"]?.list ?? []).map { $0["field"]?.text ?? "" }
      }
    }
  }
}

extension PayloadValue {
  fileprivate var list: [PayloadValue]? {
    if case .list(let elements) = self { elements } else { nil }
  }
}
