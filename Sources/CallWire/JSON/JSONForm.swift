internal import CallCore

/// How each value looks in JSON. The schema's names in camelCase; absent stands for empty, 0, false.
enum JSONForm {
  static func write(_ call: CallID, callee: String, into json: inout JSONWriter) {
    json.object("call") {
      $0.optional("callee", callee)
      $0.member("id", call.description)
    }
  }

  static func write(_ key: StaticString, _ party: Party, into json: inout JSONWriter) {
    json.object(key) {
      $0.member("user", party.user)
      $0.member("device", party.device.text)
      $0.optional("deviceName", party.deviceName)
    }
  }

  static func write(_ headers: [CustomHeader], into json: inout JSONWriter) {
    guard !headers.isEmpty else { return }
    json.array("headers", headers) { json, header in
      json.element {
        $0.member("name", header.name)
        $0.member("value", header.value)
      }
    }
  }

  static func write(_ signals: [Signal], into json: inout JSONWriter) {
    guard !signals.isEmpty else { return }
    json.array("signals", signals) { json, signal in json.element { fields(signal, into: &$0) } }
  }

  static func fields(_ signal: Signal, into json: inout JSONWriter) {
    json.member("index", signal.index)
    json.member("kind", signal.kind.name)
    json.member("body", signal.body)
  }

  static func fields(_ state: CallState, into json: inout JSONWriter) {
    write(state.call, callee: state.callee, into: &json)
    json.member("phase", state.phase.name)
    json.member("version", state.version)
    if let reason = state.reason { json.member("reason", reason.name) }
    if let by = state.by { write("by", by, into: &json) }
    json.member("atMs", state.at.milliseconds)
    if let deadline = state.deadline { json.member("deadlineMs", deadline.milliseconds) }
    json.optional("missed", state.missed)
  }

  static func fields(_ error: CallError, into json: inout JSONWriter) {
    json.member("code", error.code.rawValue)
    json.member("name", error.code.name)
    json.member("message", error.message)
    if error.retryAfterMilliseconds > 0 {
      json.member("retryAfterMs", error.retryAfterMilliseconds)
    }
  }

  static func fields(_ notice: Notice, into json: inout JSONWriter) {
    json.member("kind", notice.kind.name)
    json.member("message", notice.message)
    if notice.retryAfterMilliseconds > 0 {
      json.member("retryAfterMs", notice.retryAfterMilliseconds)
    }
  }

  static func fields(_ request: RegistrationRequest, into json: inout JSONWriter) {
    json.optional("deviceName", request.deviceName)
    if let token = request.voipToken { json.object("voipToken") { fields(token, into: &$0) } }
    if let token = request.alertToken { json.object("alertToken") { fields(token, into: &$0) } }
    json.optional("dialect", request.dialect)
    json.optional("sdkName", request.sdkName)
    json.optional("sdkVersion", request.sdkVersion)
    if let capabilities = request.capabilities {
      json.member("capabilitiesGiven", true)
      write(capabilities, into: &json)
    }
  }

  private static func write(_ capabilities: PushCapabilities, into json: inout JSONWriter) {
    guard !capabilities.isEmpty else { return }
    json.array("capabilities", capabilities.names) { json, name in json.element(name) }
  }

  private static func fields(_ token: PushToken, into json: inout JSONWriter) {
    json.member("provider", token.provider.name)
    json.optional("environment", token.environment)
    json.optional("topic", token.topic)
    json.member("token", token.token)
  }

  static func fields(_ info: RegisteredInfo, into json: inout JSONWriter) {
    json.member("device", info.device.text)
    json.member("expiresAtMs", info.expiresAt.milliseconds)
    if !info.removed.isEmpty {
      json.array("removedDevices", info.removed) { json, device in json.element(device.text) }
    }
    write(info.capabilities, into: &json)
  }
}

extension SignalKind {
  /// The kind's name on the wire (JSON).
  var name: String {
    switch self {
    case .candidate: "candidate"
    case .description: "description"
    }
  }
}

extension DeclineScope {
  /// The scope's name on the wire (JSON).
  var name: String {
    switch self {
    case .everywhere: "everywhere"
    case .here: "here"
    }
  }
}
