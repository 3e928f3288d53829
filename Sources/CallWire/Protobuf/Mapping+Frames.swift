internal import CCallProto
internal import CallCore

// Frames of devices and edges (device.proto). `FrameRules` checks what devices say afterwards.

enum ClientFrameMapping: Mapping {
  static var blank: ClientFrame { ClientFrame(id: 0, command: .ping) }
  static func make(_ m: UnsafeMutablePointer<Callmesh__V1__ClientFrame>?) {
    callmesh__v1__client_frame__init(m)
  }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Message) throws(C.Failure) {
    c.number(&value.id, &m.id)
    var command = Choice(c, m.command_case, value.command.member)
    try command.message(
      &value.command, AttachMapping.self, CALLMESH__V1__CLIENT_FRAME__COMMAND_ATTACH, &m.attach,
      { .attach($0) },
      { if case .attach(let request) = $0 { request } else { nil } })
    try command.message(
      &value.command, callmesh__v1__detach__init, CALLMESH__V1__CLIENT_FRAME__COMMAND_DETACH,
      &m.detach,
      is: .detach)
    try command.message(
      &value.command, RenewMapping.self, CALLMESH__V1__CLIENT_FRAME__COMMAND_RENEW, &m.renew,
      { .renew(token: $0) },
      { if case .renew(let token) = $0 { token } else { nil } })
    try command.message(
      &value.command, DeviceRegisterMapping.self, CALLMESH__V1__CLIENT_FRAME__COMMAND_REGISTER,
      &m.register_, { .register($0.request) },
      { if case .register(let request) = $0 { .init(device: nil, request: request) } else { nil } })
    try command.message(
      &value.command, UnregisterMapping.self, CALLMESH__V1__CLIENT_FRAME__COMMAND_UNREGISTER,
      &m.unregister,
      { .unregister($0) },
      { if case .unregister(let device) = $0 { .some(device) } else { nil } })
    try command.message(
      &value.command, PlaceMapping.self, CALLMESH__V1__CLIENT_FRAME__COMMAND_PLACE, &m.place,
      { .place($0, $1) },
      { if case .place(let call, let request) = $0 { (call, request) } else { nil } })
    try command.message(
      &value.command, AckMapping.self, CALLMESH__V1__CLIENT_FRAME__COMMAND_ACK, &m.ack,
      { .ack($0) },
      { if case .ack(let items) = $0 { items } else { nil } })
    try command.message(
      &value.command, callmesh__v1__ping__init, CALLMESH__V1__CLIENT_FRAME__COMMAND_PING, &m.ping,
      is: .ping)
    try command.message(
      &value.command, callmesh__v1__calls__init, CALLMESH__V1__CLIENT_FRAME__COMMAND_CALLS,
      &m.calls,
      is: .calls)
    try verbs(&command, &value.command, &m)
    try command.end(&m.command_case, "command")
  }

  private static func verbs<C: Coder>(
    _ command: inout Choice<C>, _ value: inout ClientCommand,
    _ m: inout Callmesh__V1__ClientFrame
  ) throws(C.Failure) {
    try command.message(
      &value, AnswerMapping.self, CALLMESH__V1__CLIENT_FRAME__COMMAND_ANSWER, &m.answer,
      { .call($0, .answer(description: $1)) },
      { if case .call(let call, .answer(let text)) = $0 { (call, text) } else { nil } })
    try command.message(
      &value, DeclineMapping.self, CALLMESH__V1__CLIENT_FRAME__COMMAND_DECLINE, &m.decline,
      { .call($0, .decline($1)) },
      { if case .call(let call, .decline(let scope)) = $0 { (call, scope) } else { nil } })
    try command.message(
      &value, SaidSignalMapping.self, CALLMESH__V1__CLIENT_FRAME__COMMAND_DESCRIPTION,
      &m.description, { .call($0, .signal(.description, body: $1)) },
      {
        if case .call(let call, .signal(.description, let body)) = $0 { (call, body) } else { nil }
      })
    try command.message(
      &value, SaidSignalMapping.self, CALLMESH__V1__CLIENT_FRAME__COMMAND_CANDIDATE,
      &m.candidate, { .call($0, .signal(.candidate, body: $1)) },
      {
        if case .call(let call, .signal(.candidate, let body)) = $0 { (call, body) } else { nil }
      })
    // Messages that name a call and nothing else.
    try command.bare(
      &value, callmesh__v1__alerting__init, CALLMESH__V1__CLIENT_FRAME__COMMAND_ALERTING,
      &m.alerting, .alerting)
    try command.bare(
      &value, callmesh__v1__busy__init, CALLMESH__V1__CLIENT_FRAME__COMMAND_BUSY, &m.busy, .busy)
    try command.bare(
      &value, callmesh__v1__cancel__init, CALLMESH__V1__CLIENT_FRAME__COMMAND_CANCEL, &m.cancel,
      .cancel)
    try command.bare(
      &value, callmesh__v1__connected__init, CALLMESH__V1__CLIENT_FRAME__COMMAND_CONNECTED,
      &m.connected, .connected)
    try command.bare(
      &value, callmesh__v1__hang_up__init, CALLMESH__V1__CLIENT_FRAME__COMMAND_HANG_UP, &m.hang_up,
      .hangUp)
    try command.bare(
      &value, callmesh__v1__resume__init, CALLMESH__V1__CLIENT_FRAME__COMMAND_RESUME, &m.resume,
      .resume)
    try command.bare(
      &value, callmesh__v1__query__init, CALLMESH__V1__CLIENT_FRAME__COMMAND_QUERY, &m.query, .query
    )
  }
}

private protocol NamesACall {
  var call: UnsafeMutablePointer<Callmesh__V1__CallRef>! { get set }
}

extension Callmesh__V1__Alerting: NamesACall {}
extension Callmesh__V1__Busy: NamesACall {}
extension Callmesh__V1__Cancel: NamesACall {}
extension Callmesh__V1__Connected: NamesACall {}
extension Callmesh__V1__HangUp: NamesACall {}
extension Callmesh__V1__Resume: NamesACall {}
extension Callmesh__V1__Query: NamesACall {}

extension Choice {
  @inline(__always)
  fileprivate mutating func bare<Message: NamesACall>(
    _ value: inout ClientCommand, _ make: (UnsafeMutablePointer<Message>?) -> Void,
    _ member: some RawRepresentable<UInt32>, _ field: inout UnsafeMutablePointer<Message>?,
    _ verb: CallVerb
  ) throws(C.Failure) {
    guard finds(member) else { return }
    var call = CallRefMapping.blank
    if !C.reads, case .call(let said, _) = value { call = said }
    let message = try coder.pointer(make, &field, "message")
    try coder.address(&call, &message.pointee.call)
    if C.reads { value = .call(call, verb) }
  }
}

extension ClientCommand {
  fileprivate var member: Callmesh__V1__ClientFrame__CommandCase {
    switch self {
    case .attach: CALLMESH__V1__CLIENT_FRAME__COMMAND_ATTACH
    case .detach: CALLMESH__V1__CLIENT_FRAME__COMMAND_DETACH
    case .renew: CALLMESH__V1__CLIENT_FRAME__COMMAND_RENEW
    case .register: CALLMESH__V1__CLIENT_FRAME__COMMAND_REGISTER
    case .unregister: CALLMESH__V1__CLIENT_FRAME__COMMAND_UNREGISTER
    case .place: CALLMESH__V1__CLIENT_FRAME__COMMAND_PLACE
    case .ack: CALLMESH__V1__CLIENT_FRAME__COMMAND_ACK
    case .ping: CALLMESH__V1__CLIENT_FRAME__COMMAND_PING
    case .calls: CALLMESH__V1__CLIENT_FRAME__COMMAND_CALLS
    case .call(_, .answer): CALLMESH__V1__CLIENT_FRAME__COMMAND_ANSWER
    case .call(_, .decline): CALLMESH__V1__CLIENT_FRAME__COMMAND_DECLINE
    case .call(_, .signal(.description, _)): CALLMESH__V1__CLIENT_FRAME__COMMAND_DESCRIPTION
    case .call(_, .signal(.candidate, _)): CALLMESH__V1__CLIENT_FRAME__COMMAND_CANDIDATE
    case .call(_, .alerting): CALLMESH__V1__CLIENT_FRAME__COMMAND_ALERTING
    case .call(_, .busy): CALLMESH__V1__CLIENT_FRAME__COMMAND_BUSY
    case .call(_, .cancel): CALLMESH__V1__CLIENT_FRAME__COMMAND_CANCEL
    case .call(_, .connected): CALLMESH__V1__CLIENT_FRAME__COMMAND_CONNECTED
    case .call(_, .hangUp): CALLMESH__V1__CLIENT_FRAME__COMMAND_HANG_UP
    case .call(_, .resume): CALLMESH__V1__CLIENT_FRAME__COMMAND_RESUME
    case .call(_, .query): CALLMESH__V1__CLIENT_FRAME__COMMAND_QUERY
    }
  }
}

// MARK: What devices say

private enum AttachMapping: Mapping {
  static var blank: AttachRequest { AttachRequest() }
  static func make(_ m: UnsafeMutablePointer<Callmesh__V1__Attach>?) {
    callmesh__v1__attach__init(m)
  }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Message) throws(C.Failure) {
    try c.text(&value.token, &m.token, "attach.token")
    try c.text(&value.device, &m.device, "attach.device")
    try c.optionalID(&value.forCall, &m.for_call, "attach.forCall")
    try c.text(&value.deviceName, &m.device_name, "attach.deviceName")
    try c.text(&value.client, &m.client, "attach.client")
  }
}

private enum RenewMapping: Mapping {
  static var blank: String { "" }
  static func make(_ m: UnsafeMutablePointer<Callmesh__V1__Renew>?) {
    callmesh__v1__renew__init(m)
  }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Message) throws(C.Failure) {
    try c.text(&value, &m.token, "renew.token")
  }
}

private enum UnregisterMapping: Mapping {
  static var blank: DeviceID? { nil }
  static func make(_ m: UnsafeMutablePointer<Callmesh__V1__Unregister>?) {
    callmesh__v1__unregister__init(m)
  }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Message) throws(C.Failure) {
    try c.device(&value, &m.device)
  }
}

private enum PlaceMapping: Mapping {
  typealias Value = (call: CallAddress, request: PlaceRequest)
  static var blank: Value { (CallRefMapping.blank, PlaceRequest(call: CallID(high: 0, low: 0))) }
  static func make(_ m: UnsafeMutablePointer<Callmesh__V1__Place>?) {
    callmesh__v1__place__init(m)
  }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Message) throws(C.Failure) {
    try c.address(&value.call, &m.call)
    if C.reads { value.request.call = value.call.call }
    c.number(&value.request.ringTimeoutSeconds, &m.ring_timeout_seconds)
    try c.text(&value.request.description, &m.description, "description")
    try c.array(
      HeaderMapping.self, &value.request.headers, &m.n_headers, &m.headers)
    c.flag(&value.request.video, &m.video)
  }
}

private enum AckMapping: Mapping {
  static var blank: [AckItem] { [] }
  static func make(_ m: UnsafeMutablePointer<Callmesh__V1__Ack>?) {
    callmesh__v1__ack__init(m)
  }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Message) throws(C.Failure) {
    try c.array(AckItemMapping.self, &value, &m.n_items, &m.items)
  }
}

private enum AckItemMapping: Mapping {
  static var blank: AckItem { AckItem(call: CallRefMapping.blank, version: 0) }
  static func make(_ m: UnsafeMutablePointer<Callmesh__V1__AckItem>?) {
    callmesh__v1__ack_item__init(m)
  }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Message) throws(C.Failure) {
    try c.address(&value.call, &m.call)
    c.number(&value.version, &m.version)
  }
}

private enum AnswerMapping: Mapping {
  typealias Value = (call: CallAddress, description: String)
  static var blank: Value { (CallRefMapping.blank, "") }
  static func make(_ m: UnsafeMutablePointer<Callmesh__V1__Answer>?) {
    callmesh__v1__answer__init(m)
  }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Message) throws(C.Failure) {
    try c.address(&value.call, &m.call)
    try c.text(&value.description, &m.description, "description")
  }
}

private enum DeclineMapping: Mapping {
  typealias Value = (call: CallAddress, scope: DeclineScope)
  static var blank: Value { (CallRefMapping.blank, .everywhere) }
  static func make(_ m: UnsafeMutablePointer<Callmesh__V1__Decline>?) {
    callmesh__v1__decline__init(m)
  }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Message) throws(C.Failure) {
    try c.address(&value.call, &m.call)
    try c.known(&value.scope, &m.scope, "scope")
  }
}

private enum SaidSignalMapping: Mapping {
  typealias Value = (call: CallAddress, body: String)
  static var blank: Value { (CallRefMapping.blank, "") }
  static func make(_ m: UnsafeMutablePointer<Callmesh__V1__Signal>?) {
    callmesh__v1__signal__init(m)
  }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Message) throws(C.Failure) {
    try c.address(&value.call, &m.call)
    try c.text(&value.body, &m.body, "body")
  }
}

// MARK: What edges say

enum ServerFrameMapping: Mapping {
  static var blank: ServerFrame { .notice(NoticeMapping.blank) }
  static func make(_ m: UnsafeMutablePointer<Callmesh__V1__ServerFrame>?) {
    callmesh__v1__server_frame__init(m)
  }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Message) throws(C.Failure) {
    var frame = Choice(c, m.message_case, value.member)
    try frame.message(
      &value, ReplyMapping.self, CALLMESH__V1__SERVER_FRAME__MESSAGE_REPLY, &m.reply,
      { .reply(id: $0, $1) },
      { if case .reply(let id, let reply) = $0 { (id, reply) } else { nil } })
    try frame.message(
      &value, DeliveryMapping.self, CALLMESH__V1__SERVER_FRAME__MESSAGE_DELIVERY, &m.delivery,
      { .delivery($0) },
      { if case .delivery(let delivery) = $0 { delivery } else { nil } })
    try frame.message(
      &value, NoticeMapping.self, CALLMESH__V1__SERVER_FRAME__MESSAGE_NOTICE, &m.notice,
      { .notice($0) },
      { if case .notice(let notice) = $0 { notice } else { nil } })
    try frame.end(&m.message_case, "message")
  }
}

extension ServerFrame {
  fileprivate var member: Callmesh__V1__ServerFrame__MessageCase {
    switch self {
    case .reply: CALLMESH__V1__SERVER_FRAME__MESSAGE_REPLY
    case .delivery: CALLMESH__V1__SERVER_FRAME__MESSAGE_DELIVERY
    case .notice: CALLMESH__V1__SERVER_FRAME__MESSAGE_NOTICE
    }
  }
}

private enum ReplyMapping: Mapping {
  typealias Value = (id: UInt64, reply: ServerReply)
  static var blank: Value { (0, .done) }
  static func make(_ m: UnsafeMutablePointer<Callmesh__V1__Reply>?) {
    callmesh__v1__reply__init(m)
  }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Message) throws(C.Failure) {
    c.number(&value.id, &m.id)
    var reply = Choice(c, m.result_case, value.reply.member)
    try reply.message(
      &value.reply, ErrorMapping.self, CALLMESH__V1__REPLY__RESULT_ERROR, &m.error, { .error($0) },
      { if case .error(let error) = $0 { error } else { nil } })
    try reply.message(
      &value.reply, callmesh__v1__done__init, CALLMESH__V1__REPLY__RESULT_DONE, &m.done, is: .done)
    try reply.message(
      &value.reply, AttachedMapping.self, CALLMESH__V1__REPLY__RESULT_ATTACHED, &m.attached,
      { .attached($0) },
      { if case .attached(let info) = $0 { info } else { nil } })
    try reply.message(
      &value.reply, RegisteredMapping.self, CALLMESH__V1__REPLY__RESULT_REGISTERED, &m.registered,
      { .registered($0) },
      { if case .registered(let info) = $0 { info } else { nil } })
    try reply.message(
      &value.reply, CallStateMapping.self, CALLMESH__V1__REPLY__RESULT_CALL, &m.call, { .call($0) },
      { if case .call(let state) = $0 { state } else { nil } })
    try reply.message(
      &value.reply, AnswerResultMapping.self, CALLMESH__V1__REPLY__RESULT_ANSWER, &m.answer,
      { .answer(won: $0, $1) },
      { if case .answer(let won, let state) = $0 { (won, state) } else { nil } })
    try reply.message(
      &value.reply, CallListMapping.self, CALLMESH__V1__REPLY__RESULT_CALLS, &m.calls,
      { .calls($0) },
      { if case .calls(let calls) = $0 { calls } else { nil } })
    try reply.end(&m.result_case, "result")
  }
}

extension ServerReply {
  fileprivate var member: Callmesh__V1__Reply__ResultCase {
    switch self {
    case .error: CALLMESH__V1__REPLY__RESULT_ERROR
    case .done: CALLMESH__V1__REPLY__RESULT_DONE
    case .attached: CALLMESH__V1__REPLY__RESULT_ATTACHED
    case .registered: CALLMESH__V1__REPLY__RESULT_REGISTERED
    case .call: CALLMESH__V1__REPLY__RESULT_CALL
    case .answer: CALLMESH__V1__REPLY__RESULT_ANSWER
    case .calls: CALLMESH__V1__REPLY__RESULT_CALLS
    }
  }
}

private enum AttachedMapping: Mapping {
  static var blank: AttachedInfo {
    AttachedInfo(
      session: "", user: "", device: "", pingSeconds: 0, serverTime: Timestamp(microseconds: 0))
  }
  static func make(_ m: UnsafeMutablePointer<Callmesh__V1__Attached>?) {
    callmesh__v1__attached__init(m)
  }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Message) throws(C.Failure) {
    try c.text(&value.session, &m.session, "session")
    try c.text(&value.user, &m.user, "user")
    try c.device(&value.device, &m.device)
    c.number(&value.pingSeconds, &m.ping_seconds)
    c.time(&value.serverTime, milliseconds: &m.server_time_ms)
    try c.optional(CallStateMapping.self, &value.forCall, &m.for_call)
  }
}
