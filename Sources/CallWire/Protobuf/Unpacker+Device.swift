internal import CCallProto
internal import CallCore

/// Messages of device.proto that nodes say to each other, too.
extension Unpacker {
  static func header(
    _ message: UnsafeMutablePointer<Callmesh__V1__Header>
  ) throws(Fault) -> CustomHeader {
    CustomHeader(
      name: try text(message.pointee.name, "headers.name"),
      value: try text(message.pointee.value, "headers.value"))
  }

  static func party(
    _ pointer: UnsafeMutablePointer<Callmesh__V1__Party>?, _ field: StaticString
  ) throws(Fault) -> Party {
    let message = try there(pointer, field)
    return Party(
      user: try text(message.pointee.user, field),
      device: DeviceID(try text(message.pointee.device, field)),
      deviceName: try text(message.pointee.device_name, field))
  }

  static func optionalParty(
    _ pointer: UnsafeMutablePointer<Callmesh__V1__Party>?, _ field: StaticString
  ) throws(Fault) -> Party? {
    pointer == nil ? nil : try party(pointer, field)
  }

  static func address(
    _ pointer: UnsafeMutablePointer<Callmesh__V1__CallRef>?
  ) throws(Fault) -> CallAddress {
    let message = try there(pointer, "call")
    return CallAddress(
      callee: try text(message.pointee.callee, "call.callee"),
      call: try id(message.pointee.id, "call.id"))
  }

  static func pushToken(
    _ pointer: UnsafeMutablePointer<Callmesh__V1__PushToken>?, _ field: StaticString
  ) throws(Fault) -> PushToken? {
    guard let message = pointer?.pointee else { return nil }
    let token = PushToken(
      provider: try known(message.provider.rawValue, PushProvider.self, field),
      environment: try text(message.environment, field),
      topic: try text(message.topic, field),
      token: try text(message.token, field),
      fingerprint: try text(message.fingerprint, field))
    return token.isEmpty ? nil : token
  }

  /// - Parameter strictly: capabilities that nobody knows are refused. Between nodes they are
  ///   skipped: a newer one may know them.
  static func register(
    _ message: UnsafeMutablePointer<Callmesh__V1__Register>, strictly: Bool = false
  ) throws(Fault) -> RegistrationRequest {
    RegistrationRequest(
      deviceName: try text(message.pointee.device_name, "deviceName"),
      voipToken: try pushToken(message.pointee.voip_token, "voipToken"),
      alertToken: try pushToken(message.pointee.alert_token, "alertToken"),
      dialect: try text(message.pointee.dialect, "dialect"),
      sdkName: try text(message.pointee.sdk_name, "sdkName"),
      sdkVersion: try text(message.pointee.sdk_version, "sdkVersion"),
      capabilities: try givenCapabilities(message, strictly: strictly))
  }

  /// A list that names any is given, whether or not it is said; an empty one has to be.
  private static func givenCapabilities(
    _ message: UnsafeMutablePointer<Callmesh__V1__Register>, strictly: Bool
  ) throws(Fault) -> PushCapabilities? {
    let count = message.pointee.n_capabilities
    guard message.pointee.capabilities_given != 0 || count > 0 else { return nil }
    return try capabilities(count, message.pointee.capabilities, strictly: strictly)
  }

  static func capabilities(
    _ message: UnsafeMutablePointer<Callmesh__V1__Registered>
  ) throws(Fault) -> PushCapabilities {
    try capabilities(
      message.pointee.n_capabilities, message.pointee.capabilities, strictly: false)
  }

  private static func capabilities(
    _ count: Int, _ names: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?, strictly: Bool
  ) throws(Fault) -> PushCapabilities {
    try array(count, names) { (pointer) throws(Fault) -> PushCapabilities in
      if let known = PushCapabilities(name: try text(pointer, "capabilities")) { return known }
      if strictly { throw .unknownCapability }
      return []
    }.reduce([]) { $0.union($1) }
  }

  static func callState(
    _ pointer: UnsafeMutablePointer<Callmesh__V1__CallState>?, _ field: StaticString
  ) throws(Fault) -> CallState {
    let message = try there(pointer, field).pointee
    let call = try address(message.call)
    return CallState(
      call: call.call, callee: call.callee,
      phase: try known(message.phase.rawValue, CallPhase.self, "phase"),
      version: message.version,
      reason: message.reason.rawValue == 0
        ? nil : try known(message.reason.rawValue, EndReason.self, "reason"),
      by: try optionalParty(message.by, "by"),
      at: time(milliseconds: message.at_ms),
      deadline: message.deadline_ms == 0 ? nil : time(milliseconds: message.deadline_ms),
      missed: message.missed != 0)
  }

  static func liveCalls(
    _ message: UnsafeMutablePointer<Callmesh__V1__CallList>
  ) throws(Fault) -> LiveCalls {
    LiveCalls(
      placed: try array(message.pointee.n_placed, message.pointee.placed) {
        (state) throws(Fault) in try callState(state, "placed")
      },
      received: try array(message.pointee.n_received, message.pointee.received) {
        (state) throws(Fault) in try callState(state, "received")
      })
  }

  static func error(_ message: UnsafeMutablePointer<Callmesh__V1__Error>) throws(Fault) -> CallError
  {
    CallError(
      CallError.Code(wire: message.pointee.code), try text(message.pointee.message, "message"),
      retryAfterMilliseconds: message.pointee.retry_after_ms)
  }

  /// - Parameter strictly: nodes refuse a kind that they do not know; a device passes over it.
  static func notice(
    _ pointer: UnsafeMutablePointer<Callmesh__V1__Notice>?, strictly: Bool = true
  ) throws(Fault) -> Notice {
    let message = try there(pointer, "notice")
    let kind =
      UInt8(exactly: message.pointee.kind.rawValue).flatMap { Notice.Kind(rawValue: $0) }
      ?? .unknown
    if strictly, kind == .unknown { throw .field("kind") }
    return Notice(
      kind: kind,
      message: try text(message.pointee.message, "message"),
      retryAfterMilliseconds: message.pointee.retry_after_ms)
  }

  static func signal(
    _ message: UnsafeMutablePointer<Callmesh__V1__SignalItem>
  ) throws(Fault) -> Signal {
    Signal(
      index: message.pointee.index,
      kind: try known(message.pointee.kind.rawValue, SignalKind.self, "kind"),
      body: try text(message.pointee.body, "body"))
  }

  static func devices(
    _ message: UnsafeMutablePointer<Callmesh__V1__Registered>
  ) throws(Fault) -> [DeviceID] {
    try array(message.pointee.n_removed_devices, message.pointee.removed_devices) {
      (pointer) throws(Fault) in DeviceID(try text(pointer, "removedDevices"))
    }
  }

  static func delivery(
    _ message: UnsafeMutablePointer<Callmesh__V1__Delivery>
  ) throws(Fault) -> Delivery {
    let call = try address(message.pointee.call)
    var delivery = Delivery(
      call: call.call, callee: call.callee, version: message.pointee.version,
      at: time(milliseconds: message.pointee.at_ms), event: try event(message))
    delivery.after = message.pointee.after
    return delivery
  }

  private static func event(
    _ message: UnsafeMutablePointer<Callmesh__V1__Delivery>
  ) throws(Fault) -> Delivery.Event {
    switch message.pointee.event_case {
    case CALLMESH__V1__DELIVERY__EVENT_INVITE:
      return .invite(try invite(there(message.pointee.invite, "invite")))
    case CALLMESH__V1__DELIVERY__EVENT_RINGING:
      return .ringing(by: try party(there(message.pointee.ringing, "ringing").pointee.by, "by"))
    case CALLMESH__V1__DELIVERY__EVENT_ANSWERED:
      return .answered(try answered(there(message.pointee.answered, "answered")))
    case CALLMESH__V1__DELIVERY__EVENT_STOP:
      return .stop(try stop(there(message.pointee.stop, "stop")))
    case CALLMESH__V1__DELIVERY__EVENT_SIGNAL:
      return .signal(try signal(there(message.pointee.signal, "signal")))
    default: throw .unknownMember("event")
    }
  }

  private static func invite(
    _ message: UnsafeMutablePointer<Callmesh__V1__Invite>
  ) throws(Fault) -> Invite {
    Invite(
      caller: try party(message.pointee.caller, "caller"),
      deadline: time(milliseconds: message.pointee.deadline_ms),
      video: message.pointee.video != 0,
      description: try text(message.pointee.description, "description"),
      headers: try array(message.pointee.n_headers, message.pointee.headers, header),
      signals: try array(message.pointee.n_signals, message.pointee.signals, signal))
  }

  private static func answered(
    _ message: UnsafeMutablePointer<Callmesh__V1__Answered>
  ) throws(Fault) -> Answered {
    Answered(
      by: try party(message.pointee.by, "by"),
      description: try text(message.pointee.description, "description"),
      signals: try array(message.pointee.n_signals, message.pointee.signals, signal))
  }

  private static func stop(
    _ message: UnsafeMutablePointer<Callmesh__V1__Stop>
  ) throws(Fault) -> Stop {
    Stop(
      reason: try known(message.pointee.reason.rawValue, EndReason.self, "reason"),
      by: try optionalParty(message.pointee.by, "by"),
      missed: message.pointee.missed != 0)
  }
}

extension PushToken {
  /// As good as absent.
  var isEmpty: Bool {
    provider == .none && environment.isEmpty && topic.isEmpty && token.isEmpty
  }
}

extension CallError.Code {
  /// A code of the wire. One that this version does not know counts as a failure of the server; its
  /// sentence still tells a person what it is.
  init(wire number: some BinaryInteger) {
    self = UInt16(exactly: number).flatMap(Self.init(rawValue:)) ?? .internalError
  }
}
