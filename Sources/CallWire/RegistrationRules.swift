public import CallCore

/// Rules for what a device may register, and for the canonical form in which it is kept: tokens are compared as text.
///
/// No sentence holds a token, or any part of one.
public enum RegistrationRules {
  /// The length in bytes of user ids in apps that come from Sinch, whose SDK takes no others.
  public static let sinchUserIDBytes = 1...40

  /// Checks a registration and brings its tokens into their one form, and its names to what fits. Fingerprints are left
  /// empty: what a device says of them is not read.
  ///
  /// - Throws: `unknownDialect`, `invalidPushToken`.
  public static func normalised(_ request: RegistrationRequest) throws(CallError)
    -> RegistrationRequest
  {
    guard request.dialect.isEmpty || PushDialect(rawValue: request.dialect) != nil else {
      throw CallError(.unknownDialect)
    }
    var request = request
    request.deviceName = FieldRules.label(request.deviceName)
    request.sdkName = FieldRules.label(request.sdkName)
    request.sdkVersion = FieldRules.label(request.sdkVersion)
    if let token = request.voipToken {
      request.voipToken = try PushTokenRules(field: .voip).normalised(token)
    }
    if let token = request.alertToken {
      request.alertToken = try PushTokenRules(field: .alert).normalised(token)
    }
    return request
  }

  /// Whether a user may register with the request's dialect.
  /// - Throws: `invalidUserForDialect`.
  public static func check(_ request: RegistrationRequest, of user: String) throws(CallError) {
    guard request.dialect == PushDialect.sinch.rawValue else { return }
    guard sinchUserIDBytes.contains(user.utf8.count), user.utf8.allSatisfy({ $0 < 0x80 }) else {
      throw CallError(.invalidUserForDialect)
    }
  }
}
