internal import CCallProto
internal import CallCore

// The commands of edges, gateways and coordinators to shards (cluster.proto).

extension Callmesh__V1__CommandBatch: Root {
  static var blank: CommandBatch { CommandBatch(edge: 0, commands: []) }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__command_batch__init(m) }
  static let layout = WireLayout(of: Self.self)
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    // A reader that expects only edges would send its reply to no receiver.
    try c.format(
      &m.format, writes: value.peer == 0 ? ClusterCodec.firstFormat : ClusterCodec.pushFormat, .said
    )
    c.number(&value.edge, &m.edge)
    c.number(&value.peer, &m.peer)
    c.secret(&value.secret, &m.secret_high, &m.secret_low)
    guard C.reads else {
      return try c.array(&value.commands, &m.n_commands, &m.commands)
    }
    if value.edge != 0 { value.peer = 0 }
    value.commands.reserveCapacity(m.n_commands)
    for index in 0..<m.n_commands { unsafe read(m.commands?[index], into: &value, c.arena) }
  }

  /// A command that cannot be read must not harm the others in the same batch.
  private static func read(
    _ message: UnsafeMutablePointer<Callmesh__V1__Command>?, into batch: inout CommandBatch,
    _ arena: Arena
  ) {
    guard let message = unsafe message else { return }
    let edge = batch.edge == 0 ? batch.peer : batch.edge
    do throws(Fault) {
      var command = try Unpacker(arena: arena).value(of: message)
      command.session = SessionRef(edge: edge, number: command.session.number)
      batch.commands.append(command)
    } catch {
      unsafe batch.unreadable.append(
        CommandBatch.Unreadable(
          session: SessionRef(edge: edge, number: message.pointee.session),
          request: message.pointee.request, reason: error.sentence))
    }
  }
}

/// The session's edge stands in the batch.
extension Callmesh__V1__Command: Mapping {
  static var blank: Command {
    Command(
      session: SessionRef(edge: 0, number: 0), request: 0, user: .blank, device: "", callee: .blank,
      body: .callerGone([]))
  }
  static func make(_ m: UnsafeMutablePointer<Self>?) { callmesh__v1__command__init(m) }
  static func code<C: Coder>(_ c: C, _ value: inout Value, _ m: inout Self) throws(C.Failure) {
    var session = value.session.number
    c.number(&session, &m.session)
    if C.reads { value.session = SessionRef(edge: 0, number: session) }
    c.number(&value.request, &m.request)
    c.number(&value.after, &m.after)
    c.time(&value.attachedAt, microseconds: &m.attached_at_us)
    c.number(&value.devicesPerUser, &m.devices_per_user)
    c.flag(&value.hasWebhooks, &m.webhooks)
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
    c.ticket(&ticket, &m.ticket_high, &m.ticket_low, &m.ticket_times, &m.ticket_key)
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

  private static func body<C: Coder>(_ c: C, _ value: inout Command, _ m: inout Self) throws(C
    .Failure)
  {
    guard C.reads else {
      m.body_case = try write(c, value.body, &m)
      return
    }
    value.body = try body(c, m)
    // A report is of the device that the command names.
    if case .pushReport(var report) = value.body {
      report.device = value.device
      value.body = .pushReport(report)
    }
  }

  private static func body<C: Coder>(_ c: C, _ m: Self) throws(C.Failure) -> Command.Body {
    switch m.body_case {
    case CALLMESH__V1__COMMAND__BODY_ACK: return .ack(try c.read(m.ack))
    case CALLMESH__V1__COMMAND__BODY_PLACE: return .place(try c.read(m.place))
    case CALLMESH__V1__COMMAND__BODY_ATTACH: return .attach(try c.read(m.attach))
    case CALLMESH__V1__COMMAND__BODY_SESSION_CLOSED:
      return .sessionClosed(graceful: try c.read(m.session_closed))
    case CALLMESH__V1__COMMAND__BODY_CALLER_GONE: return .callerGone(try c.read(m.caller_gone))
    case CALLMESH__V1__COMMAND__BODY_REGISTER: return .register(try c.read(m.register_).request)
    case CALLMESH__V1__COMMAND__BODY_UNREGISTER: return .unregister(try c.read(m.unregister) ?? "")
    case CALLMESH__V1__COMMAND__BODY_PUSH_REPORT: return .pushReport(try c.read(m.push_report))
    case CALLMESH__V1__COMMAND__BODY_TOKEN_TAKEN: return .tokenTaken(try c.read(m.token_taken))
    case CALLMESH__V1__COMMAND__BODY_CALLS: return .calls(shard: try c.read(m.calls))
    case CALLMESH__V1__COMMAND__BODY_TALKING: return .talking(try c.read(m.talking))
    case CALLMESH__V1__COMMAND__BODY_CROSSED: return .crossed(try c.read(m.crossed))
    case CALLMESH__V1__COMMAND__BODY_MERGE: return .merge(try c.read(m.merge))
    case CALLMESH__V1__COMMAND__BODY_REPLACED: return .replaced(try c.read(m.replaced))
    case CALLMESH__V1__COMMAND__BODY_HISTORY: return .history(try c.read(m.history))
    case CALLMESH__V1__COMMAND__BODY_VISIT: return .visit(try c.read(m.visit))
    case CALLMESH__V1__COMMAND__BODY_RULES: return .rules(try c.read(m.rules))
    case CALLMESH__V1__COMMAND__BODY_FOR_APP: return .app(try c.read(m.for_app))
    default:
      let (call, verb) = try verb(c, m)
      return .call(call, verb)
    }
  }

  private static func verb<C: Coder>(_ c: C, _ m: Self) throws(C.Failure) -> (
    call: CallID, verb: CallVerb
  ) {
    switch m.body_case {
    case CALLMESH__V1__COMMAND__BODY_ANSWER:
      let (call, description) = try c.read(m.answer)
      return (call, .answer(description: description))
    case CALLMESH__V1__COMMAND__BODY_PULL:
      let (call, request) = try c.read(m.pull)
      return (call, .pull(request))
    case CALLMESH__V1__COMMAND__BODY_TRANSFER:
      let (call, request) = try c.read(m.transfer)
      return (call, .transfer(request))
    case CALLMESH__V1__COMMAND__BODY_CANCEL_TRANSFER:
      return (try c.read(m.cancel_transfer, "cancelTransfer"), .cancelTransfer)
    case CALLMESH__V1__COMMAND__BODY_DECLINE:
      let (call, scope) = try c.read(m.decline)
      return (call, .decline(scope))
    case CALLMESH__V1__COMMAND__BODY_DESCRIPTION:
      let (call, body) = try c.read(m.description)
      return (call, .signal(.description, body: body))
    case CALLMESH__V1__COMMAND__BODY_CANDIDATE:
      let (call, body) = try c.read(m.candidate)
      return (call, .signal(.candidate, body: body))
    case CALLMESH__V1__COMMAND__BODY_INFORMATION:
      let (call, body) = try c.read(m.information)
      return (call, .signal(.information, body: body))
    case CALLMESH__V1__COMMAND__BODY_ALERTING:
      return (try c.read(m.alerting, "alerting"), .alerting)
    case CALLMESH__V1__COMMAND__BODY_BUSY: return (try c.read(m.busy, "busy"), .busy)
    case CALLMESH__V1__COMMAND__BODY_CANCEL: return (try c.read(m.cancel, "cancel"), .cancel)
    case CALLMESH__V1__COMMAND__BODY_CONNECTED:
      return (try c.read(m.connected, "connected"), .connected)
    case CALLMESH__V1__COMMAND__BODY_HANG_UP: return (try c.read(m.hang_up, "hangUp"), .hangUp)
    case CALLMESH__V1__COMMAND__BODY_RESUME: return (try c.read(m.resume, "resume"), .resume)
    case CALLMESH__V1__COMMAND__BODY_QUERY: return (try c.read(m.query, "query"), .query)
    default: throw c.failure(.unknownMember("command"))
    }
  }

  private static func write<C: Coder>(_ c: C, _ body: Command.Body, _ m: inout Self) throws(C
    .Failure) -> Callmesh__V1__Command__BodyCase
  {
    switch body {
    case .ack(let items): try c.write(items, &m.ack, CALLMESH__V1__COMMAND__BODY_ACK)
    case .call(let call, let verb): try write(c, call, verb, &m)
    case .place(let request): try c.write(request, &m.place, CALLMESH__V1__COMMAND__BODY_PLACE)
    case .attach(let attach): try c.write(attach, &m.attach, CALLMESH__V1__COMMAND__BODY_ATTACH)
    case .sessionClosed(let graceful):
      try c.write(graceful, &m.session_closed, CALLMESH__V1__COMMAND__BODY_SESSION_CLOSED)
    case .callerGone(let calls):
      try c.write(calls, &m.caller_gone, CALLMESH__V1__COMMAND__BODY_CALLER_GONE)
    case .register(let request):
      try c.write(
        HTTPBodies.Register(device: nil, request: request), &m.register_,
        CALLMESH__V1__COMMAND__BODY_REGISTER)
    case .unregister(let device):
      try c.write(device, &m.unregister, CALLMESH__V1__COMMAND__BODY_UNREGISTER)
    case .pushReport(let report):
      try c.write(report, &m.push_report, CALLMESH__V1__COMMAND__BODY_PUSH_REPORT)
    case .tokenTaken(let taken):
      try c.write(taken, &m.token_taken, CALLMESH__V1__COMMAND__BODY_TOKEN_TAKEN)
    case .calls(let shard): try c.write(shard, &m.calls, CALLMESH__V1__COMMAND__BODY_CALLS)
    case .talking(let talking):
      try c.write(talking, &m.talking, CALLMESH__V1__COMMAND__BODY_TALKING)
    case .crossed(let crossed):
      try c.write(crossed, &m.crossed, CALLMESH__V1__COMMAND__BODY_CROSSED)
    case .merge(let request): try c.write(request, &m.merge, CALLMESH__V1__COMMAND__BODY_MERGE)
    case .replaced(let request):
      try c.write(request, &m.replaced, CALLMESH__V1__COMMAND__BODY_REPLACED)
    case .history(let body): try c.write(body, &m.history, CALLMESH__V1__COMMAND__BODY_HISTORY)
    case .visit(let request): try c.write(request, &m.visit, CALLMESH__V1__COMMAND__BODY_VISIT)
    case .rules(let request): try c.write(request, &m.rules, CALLMESH__V1__COMMAND__BODY_RULES)
    case .app(let request): try c.write(request, &m.for_app, CALLMESH__V1__COMMAND__BODY_FOR_APP)
    }
  }

  private static func write<C: Coder>(_ c: C, _ call: CallID, _ verb: CallVerb, _ m: inout Self)
    throws(C.Failure) -> Callmesh__V1__Command__BodyCase
  {
    switch verb {
    case .answer(let description):
      try c.write((call, description), &m.answer, CALLMESH__V1__COMMAND__BODY_ANSWER)
    case .pull(let request):
      try c.write((call, request), &m.pull, CALLMESH__V1__COMMAND__BODY_PULL)
    case .transfer(let request):
      try c.write((call, request), &m.transfer, CALLMESH__V1__COMMAND__BODY_TRANSFER)
    case .cancelTransfer:
      c.write(call, &m.cancel_transfer, CALLMESH__V1__COMMAND__BODY_CANCEL_TRANSFER)
    case .decline(let scope):
      try c.write((call, scope), &m.decline, CALLMESH__V1__COMMAND__BODY_DECLINE)
    case .signal(.description, let body):
      try c.write((call, body), &m.description, CALLMESH__V1__COMMAND__BODY_DESCRIPTION)
    case .signal(.candidate, let body):
      try c.write((call, body), &m.candidate, CALLMESH__V1__COMMAND__BODY_CANDIDATE)
    case .signal(.information, let body):
      try c.write((call, body), &m.information, CALLMESH__V1__COMMAND__BODY_INFORMATION)
    // No version can read it: it is refused as an unknown command.
    case .signal(.unknown, _): CALLMESH__V1__COMMAND__BODY__NOT_SET
    case .alerting: c.write(call, &m.alerting, CALLMESH__V1__COMMAND__BODY_ALERTING)
    case .busy: c.write(call, &m.busy, CALLMESH__V1__COMMAND__BODY_BUSY)
    case .cancel: c.write(call, &m.cancel, CALLMESH__V1__COMMAND__BODY_CANCEL)
    case .connected: c.write(call, &m.connected, CALLMESH__V1__COMMAND__BODY_CONNECTED)
    case .hangUp: c.write(call, &m.hang_up, CALLMESH__V1__COMMAND__BODY_HANG_UP)
    case .resume: c.write(call, &m.resume, CALLMESH__V1__COMMAND__BODY_RESUME)
    case .query: c.write(call, &m.query, CALLMESH__V1__COMMAND__BODY_QUERY)
    }
  }
}

extension Coder {
  /// Writes a verb without fields of its own.
  @safe @inline(__always)
  fileprivate func write<Member>(
    _ call: CallID, _ field: inout ProtobufCBinaryData, _ member: Member
  ) -> Member {
    unsafe field = write(call)
    return member
  }
}
