internal import CCallProto
internal import CallCore

// Registrations, in messages of devices and nodes (device.proto).

extension Callmesh__V1__PushToken: Mapping {
  static var blank: PushToken { PushToken(provider: .none, environment: "", topic: "", token: "") }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__push_token__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    try c.known(&value.provider, &m.provider, "provider")
    try c.text(&value.environment, &m.environment, "environment")
    try c.text(&value.topic, &m.topic, "topic")
    try c.text(&value.token, &m.token, "token")
    try c.text(&value.fingerprint, &m.fingerprint, "fingerprint")
  }
}

extension Coder {
  /// A token without content is as good as absent.
  @safe
  fileprivate func token(
    _ value: inout PushToken?, _ field: inout UnsafeMutablePointer<Callmesh__V1__PushToken>?
  ) throws(Failure) {
    try optional(&value, &field)
    if Self.reads, value?.isEmpty == true { value = nil }
  }

  /// Skips unknown names.
  /// - Parameter strictly: refuses them instead.
  @safe
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
        throw failure(.unknownCapability)
      }
    }
  }
}

/// Devices may name known capabilities only. Between nodes those that only a newer node knows are skipped. The device
/// stands only in the body of an HTTP request.
extension Callmesh__V1__Register: Mapping {
  static var blank: HTTPBodies.Register { HTTPBodies.Register(device: nil, request: .init()) }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__register__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    try c.device(&value.device, &m.device)
    try c.text(&value.request.deviceName, &m.device_name, "deviceName")
    try c.token(&value.request.voipToken, &m.voip_token)
    try c.token(&value.request.alertToken, &m.alert_token)
    try c.text(&value.request.dialect, &m.dialect, "dialect")
    try c.text(&value.request.sdkName, &m.sdk_name, "sdkName")
    try c.text(&value.request.sdkVersion, &m.sdk_version, "sdkVersion")
    // A list with names counts as given, whatever the flag; an empty one needs the flag.
    var given = value.request.capabilities != nil
    var capabilities = value.request.capabilities ?? []
    c.flag(&given, &m.capabilities_given)
    try c.capabilities(
      &capabilities, &m.n_capabilities, &m.capabilities, strictly: c.isDeviceProtocol)
    if C.reads { value.request.capabilities = given || m.n_capabilities > 0 ? capabilities : nil }
  }
}

extension Callmesh__V1__Registered: Mapping {
  static var blank: RegisteredInfo { RegisteredInfo(device: "", expiresAt: .zero) }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__registered__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    try c.device(&value.device, &m.device)
    c.time(&value.expiresAt, milliseconds: &m.expires_at_ms)
    var removed = value.removed.map(\.text)
    try c.texts(&removed, &m.n_removed_devices, &m.removed_devices, "removedDevices")
    if C.reads { value.removed = removed.map { DeviceID($0) } }
    try c.capabilities(&value.capabilities, &m.n_capabilities, &m.capabilities)
    try c.text(&value.deviceName, &m.device_name, "deviceName")
  }
}

// MARK: Other bodies of HTTP

extension Callmesh__V1__RefusalBody: Mapping {
  static var blank: HTTPBodies.Decline { HTTPBodies.Decline() }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__refusal_body__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    try c.device(&value.device, &m.device)
    try c.known(&value.scope, &m.scope, "scope")
    try c.text(&value.capability, &m.capability, "capability")
  }
}

extension Callmesh__V1__ErrorBody: Mapping {
  static var blank: CallError { Callmesh__V1__Error.blank }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__error_body__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    try c.message(&value, &m.error, "error")
  }
}

extension PushToken {
  /// As good as absent.
  var isEmpty: Bool {
    provider == .none && environment.isEmpty && topic.isEmpty && token.isEmpty
  }
}
