internal import CCallProto
internal import CallCore

// Registrations, as devices and nodes speak of them (device.proto).

enum PushTokenMapping: Mapping {
  static var blank: PushToken { PushToken(provider: .none, environment: "", topic: "", token: "") }
  static func make(_ m: UnsafeMutablePointer<Callmesh__V1__PushToken>?) {
    callmesh__v1__push_token__init(m)
  }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Message) throws(C.Failure) {
    try c.known(&value.provider, &m.provider, "provider")
    try c.text(&value.environment, &m.environment, "environment")
    try c.text(&value.topic, &m.topic, "topic")
    try c.text(&value.token, &m.token, "token")
    try c.text(&value.fingerprint, &m.fingerprint, "fingerprint")
  }
}

extension Coder {
  /// A token without content is as good as absent.
  fileprivate func token(
    _ value: inout PushToken?, _ field: inout UnsafeMutablePointer<Callmesh__V1__PushToken>?
  ) throws(Failure) {
    try optional(PushTokenMapping.self, &value, &field)
    if Self.reads, value?.isEmpty == true { value = nil }
  }

  /// Names that nobody knows are skipped.
  func capabilities(
    _ value: inout PushCapabilities, _ count: inout Int,
    _ field: inout UnsafeMutablePointer<CText?>?, strictly: Bool = false
  ) throws(Failure) {
    var names = Self.reads ? [] : value.names
    try texts(&names, &count, &field, "capabilities")
    guard Self.reads else { return }
    value = []
    for name in names {
      if let known = PushCapabilities(name: name) {
        value.formUnion(known)
      } else if strictly {
        try fail(.unknownCapability)
      }
    }
  }
}

/// Between nodes: capabilities that only a newer one knows are skipped.
enum RegisterMapping: Mapping {
  static var blank: RegistrationRequest { RegistrationRequest() }
  static func make(_ m: UnsafeMutablePointer<Callmesh__V1__Register>?) {
    callmesh__v1__register__init(m)
  }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Message) throws(C.Failure) {
    try code(c, &value, &m, strictly: false)
  }

  fileprivate static func code<C: Coder>(
    _ c: C, _ value: inout RegistrationRequest, _ m: inout Callmesh__V1__Register,
    strictly: Bool
  ) throws(C.Failure) {
    try c.text(&value.deviceName, &m.device_name, "deviceName")
    try c.token(&value.voipToken, &m.voip_token)
    try c.token(&value.alertToken, &m.alert_token)
    try c.text(&value.dialect, &m.dialect, "dialect")
    try c.text(&value.sdkName, &m.sdk_name, "sdkName")
    try c.text(&value.sdkVersion, &m.sdk_version, "sdkVersion")
    // A list that names any is given, whether or not it is said; an empty one has to be.
    var given = value.capabilities != nil
    var capabilities = value.capabilities ?? []
    c.flag(&given, &m.capabilities_given)
    try c.capabilities(
      &capabilities, &m.n_capabilities, &m.capabilities, strictly: strictly)
    if C.reads { value.capabilities = given || m.n_capabilities > 0 ? capabilities : nil }
  }
}

/// What a device says. The device itself stands only in the body of an HTTP request.
enum DeviceRegisterMapping: Mapping {
  static var blank: HTTPBodies.Register {
    HTTPBodies.Register(device: nil, request: RegistrationRequest())
  }
  static func make(_ m: UnsafeMutablePointer<Callmesh__V1__Register>?) {
    callmesh__v1__register__init(m)
  }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Message) throws(C.Failure) {
    try c.device(&value.device, &m.device)
    try RegisterMapping.code(c, &value.request, &m, strictly: true)
  }
}

enum RegisteredMapping: Mapping {
  static var blank: RegisteredInfo {
    RegisteredInfo(device: "", expiresAt: Timestamp(microseconds: 0))
  }
  static func make(_ m: UnsafeMutablePointer<Callmesh__V1__Registered>?) {
    callmesh__v1__registered__init(m)
  }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Message) throws(C.Failure) {
    try c.device(&value.device, &m.device)
    c.time(&value.expiresAt, milliseconds: &m.expires_at_ms)
    var removed = value.removed.map(\.text)
    try c.texts(
      &removed, &m.n_removed_devices, &m.removed_devices, "removedDevices")
    if C.reads { value.removed = removed.map { DeviceID($0) } }
    try c.capabilities(&value.capabilities, &m.n_capabilities, &m.capabilities)
  }
}

// MARK: Other bodies of HTTP

enum RefusalMapping: Mapping {
  static var blank: HTTPBodies.Decline { HTTPBodies.Decline() }
  static func make(_ m: UnsafeMutablePointer<Callmesh__V1__RefusalBody>?) {
    callmesh__v1__refusal_body__init(m)
  }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Message) throws(C.Failure) {
    try c.device(&value.device, &m.device)
    try c.known(&value.scope, &m.scope, "scope")
    try c.text(&value.capability, &m.capability, "capability")
  }
}

enum ErrorBodyMapping: Mapping {
  static var blank: CallError { ErrorMapping.blank }
  static func make(_ m: UnsafeMutablePointer<Callmesh__V1__ErrorBody>?) {
    callmesh__v1__error_body__init(m)
  }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Message) throws(C.Failure) {
    try c.message(ErrorMapping.self, &value, &m.error, "error")
  }
}

extension PushToken {
  /// As good as absent.
  var isEmpty: Bool {
    provider == .none && environment.isEmpty && topic.isEmpty && token.isEmpty
  }
}
