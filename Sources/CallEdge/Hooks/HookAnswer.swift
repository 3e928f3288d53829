package import CallCore
internal import CallTelemetry

/// The decision on a call about which an app's hook was asked.
package enum HookDecision: Sendable, Equatable {
  /// - callerName: the caller's display name; nil: as its token gives it.
  /// - forward: users who ring in place of the callee; empty: the callee rings.
  case allow(callerName: String?, forward: [String] = [])
  case refuse(CallError)
}

/// Why a hook gave no answer.
package enum HookFailure: Error, Sendable, Equatable {
  case timeout
  /// There was no connection, or it ended too soon.
  case unreachable
  case status(Int)
  case tooLarge
  /// The body is none of the answers.
  case unreadable
}

/// Reads what a hook answers. Members that it does not know are ignored, so that an app may say more than this
/// version understands; an action that it does not know is no answer.
package enum HookAnswer {
  /// Ten ids of 128 bytes, each character written as `\u0416`, have room.
  package static let bytesMax = 16_384

  private struct Body: Decodable {
    var action: String
    var callerName: String?
    var reason: String?
    var message: String?
    var to: [String]?
  }

  /// The most users to whom a call is forwarded.
  package static let forwardMax = 10

  package static func read(_ bytes: [UInt8]) -> Result<HookDecision, HookFailure> {
    guard bytes.count <= bytesMax else { return .failure(.tooLarge) }
    guard let body = BoundedJSON.decode(Body.self, bytes, bytesMax: bytesMax) else {
      return .failure(.unreadable)
    }
    switch body.action {
    case "allow":
      let name = DisplayName.shown(body.callerName ?? "")
      return .success(.allow(callerName: name.isEmpty ? nil : name))
    case "forward":
      let users = body.to ?? []
      guard (1...forwardMax).contains(users.count), users.allSatisfy(IdentifierRules.isUser) else {
        return .failure(.unreadable)
      }
      let name = DisplayName.shown(body.callerName ?? "")
      return .success(.allow(callerName: name.isEmpty ? nil : name, forward: users))
    case "refuse":
      let sentence = DisplayName.shown(body.message ?? "")
      return .success(
        .refuse(CallError(code(body.reason), sentence.isEmpty ? nil : sentence)))
    default: return .failure(.unreadable)
    }
  }

  /// The app wants no such call, whatever else it says: a reason that is not known refuses like `forbidden`.
  private static func code(_ reason: String?) -> CallError.Code {
    switch reason {
    case "unknownUser": .unknownUser
    case "unavailable": .userUnavailable
    default: .refusedByApp
    }
  }
}
