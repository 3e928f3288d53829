internal import CCallProto
internal import CallCore

// Calls that are handed over to other users: frames of devices, commands between nodes, and entries of the journal.

extension Callmesh__V1__Transfer: Mapping {
  typealias Value = (call: CallAddress, request: TransferRequest)
  static var blank: Value { (Callmesh__V1__CallRef.blank, TransferRequest(to: "")) }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__transfer__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    try c.address(&value.call, &m.call)
    try c.text(&value.request.to, &m.to, "to")
    try c.device(&value.request.device, &m.device)
    try c.consulted(&value.request.consulted, &m.consulted)
  }
}

extension Coder {
  @safe
  func consulted(
    _ value: inout ConsultedCall?, _ field: inout UnsafeMutablePointer<Callmesh__V1__CallRef>?
  ) throws(Failure) {
    var address = value.map { CallAddress(callee: $0.callee, call: $0.call) }
    try optional(&address, &field)
    if Self.reads { value = address.map { ConsultedCall(call: $0.call, callee: $0.callee) } }
  }
}

extension Callmesh__V1__CancelTransfer: CallMapping {
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__cancel_transfer__init(m) }
}

extension Callmesh__V1__TransferNews: Mapping {
  static var blank: TransferNews { TransferNews(to: "", number: 0) }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__transfer_news__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    try c.text(&value.to, &m.to, "to")
    c.number(&value.number, &m.number)
    try c.known(&value.reason, &m.reason, "reason", later: .failed)
    try c.optional(&value.by, &m.by)
  }
}

extension Callmesh__V1__TransferCommand: Mapping {
  static var blank: (call: CallID, request: TransferRequest) { (.zero, TransferRequest(to: "")) }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__transfer_command__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    try c.id(&value.call, &m.call, "call")
    try c.text(&value.request.to, &m.to, "to")
    try c.device(&value.request.device, &m.device)
    try c.consulted(&value.request.consulted, &m.consulted, &m.consulted_callee)
  }
}

extension Callmesh__V1__ReplacedCall: Mapping {
  static var blank: ReplacedCall { ReplacedCall(call: .zero, survivor: .zero, user: "") }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__replaced_call__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    try c.id(&value.call, &m.call, "replaced.call")
    try c.id(&value.survivor, &m.survivor, "replaced.survivor")
    try c.text(&value.user, &m.user, "replaced.user")
  }
}

extension Callmesh__V1__TransferEndedEntry: Mapping {
  static var blank: TransferEnd { TransferEnd(reason: .failed, at: .zero) }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__transfer_ended_entry__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    try c.known(&value.reason, &m.reason, "reason")
    try c.optional(&value.by, &m.by)
    c.time(&value.at, microseconds: &m.at_us)
  }
}

extension Coder {
  /// A call whose callee may be another user than that of the message; nil: none.
  @safe
  func consulted(
    _ value: inout ConsultedCall?, _ call: inout ProtobufCBinaryData,
    _ callee: inout UnsafeMutablePointer<CChar>?
  ) throws(Failure) {
    var (id, user) = (value?.call, value?.callee ?? "")
    try optionalID(&id, &call, "consulted")
    try text(&user, &callee, "consultedCallee")
    if Self.reads { value = id.map { ConsultedCall(call: $0, callee: user) } }
  }
}
