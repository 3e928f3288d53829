internal import CallCore

/// What comes in frames and in the bodies of HTTP requests.
extension JSONParse {
  /// - Returns: also the device, which only an HTTP body names.
  static func register(
    _ json: inout JSONCursor, _ field: StaticString
  ) throws(Fault) -> (device: String, request: RegistrationRequest) {
    var device = ""
    var request = RegistrationRequest()
    try json.object(field) { (json, key) throws(Fault) in
      switch key {
      case "device": device = try json.text("device")
      case "deviceName": request.deviceName = try json.text("deviceName")
      case "voipToken": request.voipToken = try pushToken(&json, "voipToken")
      case "alertToken": request.alertToken = try pushToken(&json, "alertToken")
      case "dialect": request.dialect = try json.text("dialect")
      case "sdkName": request.sdkName = try json.text("sdkName")
      case "sdkVersion": request.sdkVersion = try json.text("sdkVersion")
      default: try json.skip()
      }
    }
    return (device, request)
  }

  private static func pushToken(
    _ json: inout JSONCursor, _ field: StaticString
  ) throws(Fault) -> PushToken? {
    var token = PushToken(provider: .none, environment: "", topic: "", token: "")
    try json.object(field) { (json, key) throws(Fault) in
      switch key {
      case "provider": token.provider = try named(&json, field)
      case "environment": token.environment = try json.text(field)
      case "topic": token.topic = try json.text(field)
      case "token": token.token = try json.text(field)
      default: try json.skip()
      }
    }
    return token.isEmpty ? nil : token
  }

  static func declineBody(
    _ json: inout JSONCursor
  ) throws(Fault) -> (device: String, scope: DeclineScope) {
    var device = ""
    var scope = DeclineScope.everywhere
    try json.object("") { (json, key) throws(Fault) in
      switch key {
      case "device": device = try json.text("device")
      case "scope": scope = try named(&json, "scope")
      default: try json.skip()
      }
    }
    return (device, scope)
  }
}
