internal import CCallProto
internal import CallCore

// What edges, gateways and coordinators ask of shards (cluster.proto).

enum CommandBatchMapping: Mapping {
  static var blank: CommandBatch { CommandBatch(edge: 0, commands: []) }
  static func make(_ m: UnsafeMutablePointer<Callmesh__V1__CommandBatch>?) {
    callmesh__v1__command_batch__init(m)
  }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Message) throws(C.Failure) {
    // Who does not know of senders that are no edges would answer nobody.
    try c.format(
      &m.format, writes: value.peer == 0 ? ClusterCodec.firstFormat : ClusterCodec.pushFormat,
      .said)
    c.number(&value.edge, &m.edge)
    c.number(&value.peer, &m.peer)
    c.secret(&value.secret, &m.secret_high, &m.secret_low)
    guard C.reads else {
      return try c.array(
        CommandMapping.self, &value.commands, &m.n_commands, &m.commands)
    }
    if value.edge != 0 { value.peer = 0 }
    value.commands.reserveCapacity(m.n_commands)
    for index in 0..<m.n_commands { read(m.commands?[index], into: &value) }
  }

  /// Whoever is in the same batch must not pay for a command that cannot be read.
  private static func read(
    _ message: UnsafeMutablePointer<Callmesh__V1__Command>?, into batch: inout CommandBatch
  ) {
    guard let message else { return }
    let edge = batch.edge == 0 ? batch.peer : batch.edge
    do throws(Fault) {
      var command = try Unpacker().value(CommandMapping.self, of: message)
      command.session = SessionRef(edge: edge, number: command.session.number)
      batch.commands.append(command)
    } catch {
      batch.unreadable.append(
        CommandBatch.Unreadable(
          session: SessionRef(edge: edge, number: message.pointee.session),
          request: message.pointee.request, reason: error.sentence))
    }
  }
}

extension Coder {
  /// nil is two zeros.
  func secret(_ value: inout EdgeSecret?, _ high: inout UInt64, _ low: inout UInt64) {
    var secret = value ?? EdgeSecret(high: 0, low: 0)
    number(&secret.high, &high)
    number(&secret.low, &low)
    if Self.reads { value = secret.high | secret.low == 0 ? nil : secret }
  }
}

/// The session's edge stands in the batch.
private enum CommandMapping: Mapping {
  static var blank: Command {
    Command(
      session: SessionRef(edge: 0, number: 0), request: 0, user: UserKey(app: "", user: ""),
      device: "", callee: UserKey(app: "", user: ""), body: .callerGone([]))
  }
  static func make(_ m: UnsafeMutablePointer<Callmesh__V1__Command>?) {
    callmesh__v1__command__init(m)
  }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Message) throws(C.Failure) {
    var session = value.session.number
    c.number(&session, &m.session)
    if C.reads { value.session = SessionRef(edge: 0, number: session) }
    c.number(&value.request, &m.request)
    c.number(&value.after, &m.after)
    c.number(&value.devicesPerUser, &m.devices_per_user)
    try c.user(&value.user, &m.app, &m.user)
    try c.device(&value.device, &m.device)
    // Empty is the sender's own user.
    var callee = C.reads || value.callee == value.user ? "" : value.callee.user
    try c.text(&callee, &m.callee, "callee")
    if C.reads {
      value.callee =
        callee.isEmpty ? value.user : UserKey(app: value.user.app, user: callee)
    }
    try credential(c, &value.credential, &m)
    try body(c, &value, &m)
  }

  private static func credential<C: Coder>(
    _ c: C, _ value: inout Credential, _ m: inout Callmesh__V1__Command
  ) throws(C.Failure) {
    var (ticket, token, capability): (SessionTicket?, String, String) = (nil, "", "")
    switch value {
    case .none: break
    case .ticket(let said): ticket = said
    case .token(let said): token = said
    case .pushCapability(let said): capability = said
    }
    c.ticket(
      &ticket, &m.ticket_high, &m.ticket_low, &m.ticket_times,
      &m.ticket_key)
    try c.text(&token, &m.token, "token")
    try c.text(&capability, &m.push_capability, "pushCapability")
    guard C.reads else { return }
    if let ticket {
      value = .ticket(ticket)
    } else if !token.isEmpty {
      value = .token(token)
    } else {
      value = capability.isEmpty ? .none : .pushCapability(capability)
    }
  }

  private static func body<C: Coder>(
    _ c: C, _ value: inout Command, _ m: inout Callmesh__V1__Command
  ) throws(C.Failure) {
    var body = Choice(c, m.body_case, value.body.member)
    try body.message(
      &value.body, AckMapping.self, CALLMESH__V1__COMMAND__BODY_ACK, &m.ack, { .ack($0) },
      { if case .ack(let items) = $0 { items } else { nil } })
    try verbs(&body, &value.body, &m)
    try body.message(
      &value.body, PlaceMapping.self, CALLMESH__V1__COMMAND__BODY_PLACE, &m.place, { .place($0) },
      { if case .place(let request) = $0 { request } else { nil } })
    try body.message(
      &value.body, AttachMapping.self, CALLMESH__V1__COMMAND__BODY_ATTACH, &m.attach,
      { .attach($0) },
      { if case .attach(let attach) = $0 { attach } else { nil } })
    try body.message(
      &value.body, SessionClosedMapping.self, CALLMESH__V1__COMMAND__BODY_SESSION_CLOSED,
      &m.session_closed, { .sessionClosed(graceful: $0) },
      { if case .sessionClosed(let graceful) = $0 { graceful } else { nil } })
    try body.message(
      &value.body, CallerGoneMapping.self, CALLMESH__V1__COMMAND__BODY_CALLER_GONE, &m.caller_gone,
      { .callerGone($0) },
      { if case .callerGone(let calls) = $0 { calls } else { nil } })
    try body.message(
      &value.body, RegisterMapping.self, CALLMESH__V1__COMMAND__BODY_REGISTER, &m.register_,
      { .register($0) },
      { if case .register(let request) = $0 { request } else { nil } })
    try body.message(
      &value.body, UnregisterMapping.self, CALLMESH__V1__COMMAND__BODY_UNREGISTER, &m.unregister,
      { .unregister($0) },
      { if case .unregister(let device) = $0 { device } else { nil } })
    try body.message(
      &value.body, PushReportMapping.self, CALLMESH__V1__COMMAND__BODY_PUSH_REPORT, &m.push_report,
      { .pushReport($0) },
      { if case .pushReport(let report) = $0 { report } else { nil } })
    try body.message(
      &value.body, TokenTakenMapping.self, CALLMESH__V1__COMMAND__BODY_TOKEN_TAKEN, &m.token_taken,
      { .tokenTaken($0) },
      { if case .tokenTaken(let taken) = $0 { taken } else { nil } })
    try body.message(
      &value.body, CallsMapping.self, CALLMESH__V1__COMMAND__BODY_CALLS, &m.calls,
      { .calls(shard: $0) },
      { if case .calls(let shard) = $0 { shard } else { nil } })
    try body.end(&m.body_case, "command")
    // A report is of the device that the command names.
    if C.reads, case .pushReport(var report) = value.body {
      report.device = value.device
      value.body = .pushReport(report)
    }
  }

  private static func verbs<C: Coder>(
    _ body: inout Choice<C>, _ value: inout Command.Body,
    _ m: inout Callmesh__V1__Command
  ) throws(C.Failure) {
    try body.message(
      &value, AnswerMapping.self, CALLMESH__V1__COMMAND__BODY_ANSWER, &m.answer,
      { .call($0, .answer(description: $1)) },
      { if case .call(let call, .answer(let text)) = $0 { (call, text) } else { nil } })
    try body.message(
      &value, DeclineMapping.self, CALLMESH__V1__COMMAND__BODY_DECLINE, &m.decline,
      { .call($0, .decline($1)) },
      { if case .call(let call, .decline(let scope)) = $0 { (call, scope) } else { nil } })
    try body.message(
      &value, SignalCommandMapping.self, CALLMESH__V1__COMMAND__BODY_DESCRIPTION, &m.description,
      { .call($0, .signal(.description, body: $1)) },
      {
        if case .call(let call, .signal(.description, let body)) = $0 { (call, body) } else { nil }
      })
    try body.message(
      &value, SignalCommandMapping.self, CALLMESH__V1__COMMAND__BODY_CANDIDATE, &m.candidate,
      { .call($0, .signal(.candidate, body: $1)) },
      {
        if case .call(let call, .signal(.candidate, let body)) = $0 { (call, body) } else { nil }
      })
    try body.bare(&value, CALLMESH__V1__COMMAND__BODY_ALERTING, &m.alerting, .alerting, "alerting")
    try body.bare(&value, CALLMESH__V1__COMMAND__BODY_BUSY, &m.busy, .busy, "busy")
    try body.bare(&value, CALLMESH__V1__COMMAND__BODY_CANCEL, &m.cancel, .cancel, "cancel")
    try body.bare(
      &value, CALLMESH__V1__COMMAND__BODY_CONNECTED, &m.connected, .connected, "connected")
    try body.bare(&value, CALLMESH__V1__COMMAND__BODY_HANG_UP, &m.hang_up, .hangUp, "hangUp")
    try body.bare(&value, CALLMESH__V1__COMMAND__BODY_RESUME, &m.resume, .resume, "resume")
    try body.bare(&value, CALLMESH__V1__COMMAND__BODY_QUERY, &m.query, .query, "query")
  }
}

extension Choice {
  /// A verb of which nothing is said but the call.
  @inline(__always)
  fileprivate mutating func bare(
    _ value: inout Command.Body, _ member: some RawRepresentable<UInt32>,
    _ field: inout ProtobufCBinaryData, _ verb: CallVerb, _ name: StaticString
  ) throws(C.Failure) {
    guard finds(member) else { return }
    var id = CallID(high: 0, low: 0)
    if !C.reads, case .call(let said, _) = value { id = said }
    try coder.id(&id, &field, name)
    if C.reads { value = .call(id, verb) }
  }
}

extension Command.Body {
  fileprivate var member: Callmesh__V1__Command__BodyCase {
    switch self {
    case .ack: CALLMESH__V1__COMMAND__BODY_ACK
    case .place: CALLMESH__V1__COMMAND__BODY_PLACE
    case .attach: CALLMESH__V1__COMMAND__BODY_ATTACH
    case .sessionClosed: CALLMESH__V1__COMMAND__BODY_SESSION_CLOSED
    case .callerGone: CALLMESH__V1__COMMAND__BODY_CALLER_GONE
    case .register: CALLMESH__V1__COMMAND__BODY_REGISTER
    case .unregister: CALLMESH__V1__COMMAND__BODY_UNREGISTER
    case .pushReport: CALLMESH__V1__COMMAND__BODY_PUSH_REPORT
    case .tokenTaken: CALLMESH__V1__COMMAND__BODY_TOKEN_TAKEN
    case .calls: CALLMESH__V1__COMMAND__BODY_CALLS
    case .call(_, .answer): CALLMESH__V1__COMMAND__BODY_ANSWER
    case .call(_, .decline): CALLMESH__V1__COMMAND__BODY_DECLINE
    case .call(_, .signal(.description, _)): CALLMESH__V1__COMMAND__BODY_DESCRIPTION
    case .call(_, .signal(.candidate, _)): CALLMESH__V1__COMMAND__BODY_CANDIDATE
    case .call(_, .alerting): CALLMESH__V1__COMMAND__BODY_ALERTING
    case .call(_, .busy): CALLMESH__V1__COMMAND__BODY_BUSY
    case .call(_, .cancel): CALLMESH__V1__COMMAND__BODY_CANCEL
    case .call(_, .connected): CALLMESH__V1__COMMAND__BODY_CONNECTED
    case .call(_, .hangUp): CALLMESH__V1__COMMAND__BODY_HANG_UP
    case .call(_, .resume): CALLMESH__V1__COMMAND__BODY_RESUME
    case .call(_, .query): CALLMESH__V1__COMMAND__BODY_QUERY
    }
  }
}

private enum AckMapping: Mapping {
  static var blank: [Acknowledgement] { [] }
  static func make(_ m: UnsafeMutablePointer<Callmesh__V1__AckCommand>?) {
    callmesh__v1__ack_command__init(m)
  }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Message) throws(C.Failure) {
    try c.array(AcknowledgementMapping.self, &value, &m.n_items, &m.items)
  }
}

private enum AcknowledgementMapping: Mapping {
  static var blank: Acknowledgement { Acknowledgement(call: CallID(high: 0, low: 0), version: 0) }
  static func make(_ m: UnsafeMutablePointer<Callmesh__V1__Acknowledgement>?) {
    callmesh__v1__acknowledgement__init(m)
  }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Message) throws(C.Failure) {
    try c.id(&value.call, &m.call, "call")
    c.number(&value.version, &m.version)
  }
}

private enum AnswerMapping: Mapping {
  typealias Value = (call: CallID, description: String)
  static var blank: Value { (CallID(high: 0, low: 0), "") }
  static func make(_ m: UnsafeMutablePointer<Callmesh__V1__AnswerCommand>?) {
    callmesh__v1__answer_command__init(m)
  }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Message) throws(C.Failure) {
    try c.id(&value.call, &m.call, "call")
    try c.text(&value.description, &m.description, "description")
  }
}

private enum DeclineMapping: Mapping {
  typealias Value = (call: CallID, scope: DeclineScope)
  static var blank: Value { (CallID(high: 0, low: 0), .everywhere) }
  static func make(_ m: UnsafeMutablePointer<Callmesh__V1__DeclineCommand>?) {
    callmesh__v1__decline_command__init(m)
  }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Message) throws(C.Failure) {
    try c.id(&value.call, &m.call, "call")
    try c.known(&value.scope, &m.scope, "scope")
  }
}

private enum SignalCommandMapping: Mapping {
  typealias Value = (call: CallID, body: String)
  static var blank: Value { (CallID(high: 0, low: 0), "") }
  static func make(_ m: UnsafeMutablePointer<Callmesh__V1__SignalCommand>?) {
    callmesh__v1__signal_command__init(m)
  }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Message) throws(C.Failure) {
    try c.id(&value.call, &m.call, "call")
    try c.text(&value.body, &m.body, "body")
  }
}

private enum PlaceMapping: Mapping {
  static var blank: PlaceRequest { PlaceRequest(call: CallID(high: 0, low: 0)) }
  static func make(_ m: UnsafeMutablePointer<Callmesh__V1__PlaceCommand>?) {
    callmesh__v1__place_command__init(m)
  }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Message) throws(C.Failure) {
    try c.id(&value.call, &m.call, "call")
    c.number(&value.ringTimeoutSeconds, &m.ring_timeout_seconds)
    try c.text(&value.description, &m.description, "description")
    try c.array(HeaderMapping.self, &value.headers, &m.n_headers, &m.headers)
    c.flag(&value.video, &m.video)
    try c.text(&value.deviceName, &m.device_name, "deviceName")
    c.time(&value.receivedAt, microseconds: &m.received_at_us)
  }
}

private enum AttachMapping: Mapping {
  static var blank: Attach { Attach() }
  static func make(_ m: UnsafeMutablePointer<Callmesh__V1__AttachCommand>?) {
    callmesh__v1__attach_command__init(m)
  }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Message) throws(C.Failure) {
    try c.optionalID(&value.forCall, &m.for_call, "forCall")
    try c.text(&value.deviceName, &m.device_name, "deviceName")
    c.flag(&value.announce, &m.announce)
    try c.text(&value.client, &m.client, "client")
    c.time(&value.attachedAt, microseconds: &m.attached_at_us)
  }
}

private enum SessionClosedMapping: Mapping {
  static var blank: Bool { false }
  static func make(_ m: UnsafeMutablePointer<Callmesh__V1__SessionClosed>?) {
    callmesh__v1__session_closed__init(m)
  }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Message) throws(C.Failure) {
    c.flag(&value, &m.graceful)
  }
}

private enum CallerGoneMapping: Mapping {
  static var blank: [CallID] { [] }
  static func make(_ m: UnsafeMutablePointer<Callmesh__V1__CallerGone>?) {
    callmesh__v1__caller_gone__init(m)
  }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Message) throws(C.Failure) {
    try c.ids(&value, &m.n_calls, &m.calls, "calls")
  }
}

private enum UnregisterMapping: Mapping {
  static var blank: DeviceID { "" }
  static func make(_ m: UnsafeMutablePointer<Callmesh__V1__Unregister>?) {
    callmesh__v1__unregister__init(m)
  }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Message) throws(C.Failure) {
    try c.device(&value, &m.device)
  }
}

private enum CallsMapping: Mapping {
  static var blank: UInt32 { 0 }
  static func make(_ m: UnsafeMutablePointer<Callmesh__V1__CallsCommand>?) {
    callmesh__v1__calls_command__init(m)
  }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Message) throws(C.Failure) {
    c.number(&value, &m.shard)
  }
}
