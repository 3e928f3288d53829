internal import CCallProto
internal import CallCore

// Calls, in messages of devices and nodes (device.proto).

extension Callmesh__V1__Header: Mapping {
  static var blank: CustomHeader { CustomHeader(name: "", value: "") }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__header__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    try c.text(&value.name, &m.name, "headers.name")
    try c.text(&value.value, &m.value, "headers.value")
  }
}

extension Callmesh__V1__Party: Mapping {
  static var blank: Party { Party(user: "", device: "") }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__party__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    try c.text(&value.user, &m.user, "user")
    try c.device(&value.device, &m.device)
    try c.text(&value.deviceName, &m.device_name, "deviceName")
    try c.text(&value.name, &m.name, "name")
  }
}

extension Callmesh__V1__CallRef: Mapping {
  static var blank: CallAddress { CallAddress(call: .zero) }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__call_ref__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    try c.text(&value.callee, &m.callee, "call.callee")
    try c.id(&value.call, &m.id, "call.id")
  }
}

extension Coder {
  @safe
  func address(
    _ value: inout CallAddress, _ field: inout UnsafeMutablePointer<Callmesh__V1__CallRef>?
  ) throws(Failure) {
    try message(&value, &field, "call")
  }

  @safe
  func address(
    _ callee: inout String, _ call: inout CallID,
    _ field: inout UnsafeMutablePointer<Callmesh__V1__CallRef>?
  ) throws(Failure) {
    var value = CallAddress(callee: callee, call: call)
    try address(&value, &field)
    if Self.reads { (callee, call) = (value.callee, value.call) }
  }
}

/// To a client a kind that this version does not know is `unknown`: it acknowledges such a delivery, so that those
/// behind it arrive. An edge leaves the delivery to edges that know the kind.
extension Callmesh__V1__SignalItem: Mapping {
  static var blank: Signal { Signal(index: 0, kind: .candidate, body: "") }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__signal_item__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    c.number(&value.index, &m.index)
    if C.reads, c.isDeviceProtocol {
      value.kind = UInt8(exactly: m.kind.rawValue).flatMap(SignalKind.init) ?? .unknown
    } else {
      try c.known(&value.kind, &m.kind, "kind")
    }
    try c.text(&value.body, &m.body, "body")
  }
}

extension Callmesh__V1__CallState: Mapping {
  static var blank: CallState { CallState(call: .zero, callee: "", phase: .unknown) }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__call_state__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    try c.address(&value.callee, &value.call, &m.call)
    try c.known(&value.phase, &m.phase, "phase")
    c.number(&value.version, &m.version)
    try c.known(&value.reason, &m.reason, "reason", later: .failed)
    try c.optional(&value.by, &m.by)
    c.time(&value.at, milliseconds: &m.at_ms)
    c.time(&value.deadline, milliseconds: &m.deadline_ms)
    c.flag(&value.missed, &m.missed)
    try c.optionalID(&value.survivor, &m.survivor, "state.survivor")
    try c.known(&value.unreachable, &m.unreachable, "state.unreachable", later: nil)
  }
}

extension Callmesh__V1__CallList: Mapping {
  static var blank: LiveCalls { LiveCalls() }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__call_list__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    try c.array(&value.placed, &m.n_placed, &m.placed)
    try c.array(&value.received, &m.n_received, &m.received)
  }
}

extension Callmesh__V1__Ongoing: Mapping {
  static var blank: OngoingCalls { OngoingCalls(version: 0) }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__ongoing__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    c.number(&value.version, &m.version)
    try c.array(&value.calls, &m.n_calls, &m.calls)
  }
}

extension Callmesh__V1__OngoingCall: Mapping {
  static var blank: OngoingCall {
    OngoingCall(call: .zero, callee: "", isPlaced: false, device: "", peer: "", since: .zero)
  }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__ongoing_call__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    try c.address(&value.callee, &value.call, &m.call)
    c.flag(&value.isPlaced, &m.placed)
    try c.device(&value.device, &m.device)
    try c.text(&value.deviceName, &m.device_name, "ongoing.deviceName")
    try c.text(&value.peer, &m.user, "ongoing.user")
    try c.text(&value.peerName, &m.name, "ongoing.name")
    c.time(&value.since, milliseconds: &m.since_ms)
  }
}

extension Callmesh__V1__AnswerResult: Mapping {
  static var blank: (won: Bool, call: CallState) { (false, Callmesh__V1__CallState.blank) }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__answer_result__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    c.flag(&value.won, &m.won)
    try c.message(&value.call, &m.call, "answer.call")
  }
}

extension Callmesh__V1__Error: Mapping {
  static var blank: CallError { CallError(.internalError) }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__error__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    var (code, name, sentence) = (UInt32(value.code.rawValue), value.code.name, value.message)
    var retryAfter = value.retryAfterMilliseconds
    c.number(&code, &m.code)
    try c.text(&name, &m.name, "name")
    try c.text(&sentence, &m.message, "message")
    c.number(&retryAfter, &m.retry_after_ms)
    guard C.reads else { return }
    // A code that this version does not know counts as a failure of the server; its sentence still tells a
    // person what it is.
    value = CallError(
      UInt16(exactly: code).flatMap(CallError.Code.init(rawValue:)) ?? .internalError, sentence,
      retryAfterMilliseconds: retryAfter)
  }
}

/// A kind that this version does not know is `unknown`.
extension Callmesh__V1__Notice: Mapping {
  static var blank: Notice { Notice(kind: .unknown, message: "") }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__notice__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    if C.reads {
      value.kind = UInt8(exactly: m.kind.rawValue).flatMap(Notice.Kind.init) ?? .unknown
    } else {
      try c.known(&value.kind, &m.kind, "kind")
    }
    try c.text(&value.message, &m.message, "message")
    c.number(&value.retryAfterMilliseconds, &m.retry_after_ms)
    try c.text(&value.nearer, &m.nearer, "nearer")
  }
}
