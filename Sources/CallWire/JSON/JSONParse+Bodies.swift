internal import CallCore

/// What comes in frames and in the bodies of HTTP requests.
extension JSONParse {
  /// - Returns: also the device, which only an HTTP body names.
  static func register(
    _ json: inout JSONCursor, _ field: StaticString
  ) throws(Fault) -> (device: String, request: RegistrationRequest) {
    var device = ""
    var request = RegistrationRequest()
    var given = false
    var capabilities: PushCapabilities = []
    try json.object(field) { (json, key) throws(Fault) in
      switch key {
      case "device": device = try json.text("device")
      case "deviceName": request.deviceName = try json.text("deviceName")
      case "voipToken": request.voipToken = try pushToken(&json, "voipToken")
      case "alertToken": request.alertToken = try pushToken(&json, "alertToken")
      case "dialect": request.dialect = try json.text("dialect")
      case "sdkName": request.sdkName = try json.text("sdkName")
      case "sdkVersion": request.sdkVersion = try json.text("sdkVersion")
      case "capabilitiesGiven": given = try json.flag("capabilitiesGiven")
      case "capabilities": capabilities = try self.capabilities(&json)
      default: try json.skip()
      }
    }
    // A list that names any is given, whether or not it is said; an empty one has to be.
    if given || !capabilities.isEmpty { request.capabilities = capabilities }
    return (device, request)
  }

  static func capabilities(_ json: inout JSONCursor) throws(Fault) -> PushCapabilities {
    var capabilities: PushCapabilities = []
    try json.array("capabilities") { (json) throws(Fault) in
      guard let capability = PushCapabilities(name: try json.text("capabilities")) else {
        throw .unknownCapability
      }
      capabilities.formUnion(capability)
    }
    return capabilities
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

  /// The body of a decline or of busy, which has no scope.
  static func refusal(
    _ json: inout JSONCursor
  ) throws(Fault) -> (device: String, scope: DeclineScope, capability: String) {
    var (device, capability) = ("", "")
    var scope = DeclineScope.everywhere
    try json.object("") { (json, key) throws(Fault) in
      switch key {
      case "device": device = try json.text("device")
      case "scope": scope = try named(&json, "scope")
      case "capability": capability = try json.text("capability")
      default: try json.skip()
      }
    }
    return (device, scope, capability)
  }
}
