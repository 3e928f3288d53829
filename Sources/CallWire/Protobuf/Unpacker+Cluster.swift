internal import CCallProto
internal import CallCore

/// What nodes say to each other.
extension Unpacker {
  static func commandBatch(
    _ message: UnsafeMutablePointer<Callmesh__V1__CommandBatch>
  ) throws(Fault) -> CommandBatch {
    try checkSaid(format: message.pointee.format)
    let edge = message.pointee.edge == 0 ? message.pointee.peer : message.pointee.edge
    var batch = CommandBatch(
      edge: message.pointee.edge, peer: message.pointee.edge == 0 ? message.pointee.peer : 0,
      secret: secret(message.pointee.secret_high, message.pointee.secret_low), commands: [])
    batch.commands.reserveCapacity(message.pointee.n_commands)
    for index in 0..<message.pointee.n_commands {
      guard let command = message.pointee.commands?[index] else { throw .malformed }
      do throws(Fault) {
        batch.commands.append(try self.command(command, edge: edge))
      } catch {
        // Whoever is in the same batch must not pay for it.
        batch.unreadable.append(
          CommandBatch.Unreadable(
            session: SessionRef(edge: edge, number: command.pointee.session),
            request: command.pointee.request, reason: error.sentence))
      }
    }
    return batch
  }

  private static func command(
    _ message: UnsafeMutablePointer<Callmesh__V1__Command>, edge: UInt64
  ) throws(Fault) -> Command {
    let user = UserKey(
      app: try text(message.pointee.app, "app"), user: try text(message.pointee.user, "user"))
    let callee = try text(message.pointee.callee, "callee")
    var command = Command(
      session: SessionRef(edge: edge, number: message.pointee.session),
      request: message.pointee.request, user: user,
      device: DeviceID(try text(message.pointee.device, "device")),
      callee: callee.isEmpty ? user : UserKey(app: user.app, user: callee),
      body: try body(message))
    command.after = message.pointee.after
    command.devicesPerUser = message.pointee.devices_per_user
    command.credential = try credential(message)
    return command
  }

  /// nil for two zeros, which stand for a sender that has none.
  static func secret(_ high: UInt64, _ low: UInt64) -> EdgeSecret? {
    high | low == 0 ? nil : EdgeSecret(high: high, low: low)
  }

  private static func credential(
    _ message: UnsafeMutablePointer<Callmesh__V1__Command>
  ) throws(Fault) -> Credential {
    let ticket = SessionTicket(
      high: message.pointee.ticket_high, low: message.pointee.ticket_low,
      times: message.pointee.ticket_times, key: message.pointee.ticket_key)
    if let ticket { return .ticket(ticket) }
    let token = try text(message.pointee.token, "token")
    if !token.isEmpty { return .token(token) }
    let capability = try text(message.pointee.push_capability, "pushCapability")
    return capability.isEmpty ? .none : .pushCapability(capability)
  }

  private static func body(
    _ message: UnsafeMutablePointer<Callmesh__V1__Command>
  ) throws(Fault) -> Command.Body {
    switch message.pointee.body_case {
    case CALLMESH__V1__COMMAND__BODY_ATTACH:
      return .attach(try attach(there(message.pointee.attach, "attach")))
    case CALLMESH__V1__COMMAND__BODY_SESSION_CLOSED:
      let closed = try there(message.pointee.session_closed, "sessionClosed")
      return .sessionClosed(graceful: closed.pointee.graceful != 0)
    case CALLMESH__V1__COMMAND__BODY_CALLER_GONE:
      let gone = try there(message.pointee.caller_gone, "callerGone")
      return .callerGone(try calls(gone.pointee.n_calls, gone.pointee.calls))
    case CALLMESH__V1__COMMAND__BODY_REGISTER:
      return .register(try register(there(message.pointee.register_, "register")))
    case CALLMESH__V1__COMMAND__BODY_UNREGISTER:
      let unregister = try there(message.pointee.unregister, "unregister")
      return .unregister(DeviceID(try text(unregister.pointee.device, "device")))
    case CALLMESH__V1__COMMAND__BODY_PLACE:
      return .place(try place(there(message.pointee.place, "place")))
    case CALLMESH__V1__COMMAND__BODY_ACK:
      let ack = try there(message.pointee.ack, "ack")
      return .ack(try array(ack.pointee.n_items, ack.pointee.items, acknowledgement))
    case CALLMESH__V1__COMMAND__BODY_ANSWER:
      let answer = try there(message.pointee.answer, "answer")
      return .answer(
        try id(answer.pointee.call, "call"),
        description: try text(answer.pointee.description, "description"))
    case CALLMESH__V1__COMMAND__BODY_DECLINE:
      let decline = try there(message.pointee.decline, "decline")
      return .decline(
        try id(decline.pointee.call, "call"),
        try known(decline.pointee.scope.rawValue, DeclineScope.self, "scope"))
    case CALLMESH__V1__COMMAND__BODY_DESCRIPTION:
      return try signal(message.pointee.description, .description)
    case CALLMESH__V1__COMMAND__BODY_CANDIDATE:
      return try signal(message.pointee.candidate, .candidate)
    case CALLMESH__V1__COMMAND__BODY_ALERTING:
      return .alerting(try id(message.pointee.alerting, "alerting"))
    case CALLMESH__V1__COMMAND__BODY_BUSY:
      return .busy(try id(message.pointee.busy, "busy"))
    case CALLMESH__V1__COMMAND__BODY_CANCEL:
      return .cancel(try id(message.pointee.cancel, "cancel"))
    case CALLMESH__V1__COMMAND__BODY_CONNECTED:
      return .connected(try id(message.pointee.connected, "connected"))
    case CALLMESH__V1__COMMAND__BODY_HANG_UP:
      return .hangUp(try id(message.pointee.hang_up, "hangUp"))
    case CALLMESH__V1__COMMAND__BODY_RESUME:
      return .resume(try id(message.pointee.resume, "resume"))
    case CALLMESH__V1__COMMAND__BODY_QUERY:
      return .query(try id(message.pointee.query, "query"))
    case CALLMESH__V1__COMMAND__BODY_PUSH_REPORT:
      return .pushReport(
        try pushReport(
          there(message.pointee.push_report, "pushReport"),
          device: DeviceID(try text(message.pointee.device, "device"))))
    case CALLMESH__V1__COMMAND__BODY_TOKEN_TAKEN:
      return .tokenTaken(try tokenTaken(there(message.pointee.token_taken, "tokenTaken")))
    case CALLMESH__V1__COMMAND__BODY_CALLS:
      return .calls(shard: try there(message.pointee.calls, "calls").pointee.shard)
    default: throw .unknownMember("command")
    }
  }

  private static func pushReport(
    _ message: UnsafeMutablePointer<Callmesh__V1__PushReport>, device: DeviceID
  ) throws(Fault) -> PushReport {
    let since = message.pointee.gone_since_us
    let reason = try text(message.pointee.reason, "reason")
    let outcome: PushOutcome =
      switch message.pointee.result {
      case CALLMESH__V1__PUSH_RESULT__PUSH_RESULT_ACCEPTED: .accepted
      case CALLMESH__V1__PUSH_RESULT__PUSH_RESULT_TOKEN_GONE:
        .tokenGone(at: since == 0 ? nil : Timestamp(microseconds: since))
      case CALLMESH__V1__PUSH_RESULT__PUSH_RESULT_REJECTED: .rejected(reason: reason)
      case CALLMESH__V1__PUSH_RESULT__PUSH_RESULT_EXPIRED: .expired
      case CALLMESH__V1__PUSH_RESULT__PUSH_RESULT_FAILED:
        .failed(reason: reason, mayHaveArrived: message.pointee.may_have_arrived != 0)
      default: throw .unknownMember("result")
      }
    return PushReport(
      call: try id(message.pointee.call, "call"), device: device,
      purpose: try known(message.pointee.purpose.rawValue, PushPurpose.self, "purpose"),
      fingerprint: try text(message.pointee.fingerprint, "fingerprint"), outcome: outcome,
      at: Timestamp(microseconds: message.pointee.at_us))
  }

  private static func tokenTaken(
    _ message: UnsafeMutablePointer<Callmesh__V1__TokenTaken>
  ) throws(Fault) -> TokenTaken {
    TokenTaken(
      fingerprint: try text(message.pointee.fingerprint, "fingerprint"),
      byUser: try text(message.pointee.by_user, "byUser"),
      byDevice: DeviceID(try text(message.pointee.by_device, "byDevice")),
      at: Timestamp(microseconds: message.pointee.at_us))
  }

  static func tokenOwner(
    _ message: UnsafeMutablePointer<Callmesh__V1__TokenOwner>
  ) throws(Fault) -> TokenOwner {
    try checkKept(format: message.pointee.format)
    return TokenOwner(
      user: UserKey(
        app: try text(message.pointee.app, "app"), user: try text(message.pointee.user, "user")),
      device: DeviceID(try text(message.pointee.device, "device")),
      claimedAt: Timestamp(microseconds: message.pointee.claimed_at_us))
  }

  private static func attach(
    _ message: UnsafeMutablePointer<Callmesh__V1__AttachCommand>
  ) throws(Fault) -> Attach {
    Attach(
      forCall: message.pointee.for_call.len == 0
        ? nil : try id(message.pointee.for_call, "forCall"),
      deviceName: try text(message.pointee.device_name, "deviceName"),
      client: try text(message.pointee.client, "client"),
      announce: message.pointee.announce != 0,
      attachedAt: Timestamp(microseconds: message.pointee.attached_at_us))
  }

  static func calls(
    _ count: Int, _ ids: UnsafeMutablePointer<ProtobufCBinaryData>?
  ) throws(Fault) -> [CallID] {
    var calls: [CallID] = []
    guard let ids else { return calls }
    calls.reserveCapacity(count)
    for index in 0..<count { calls.append(try id(ids[index], "calls")) }
    return calls
  }

  private static func place(
    _ message: UnsafeMutablePointer<Callmesh__V1__PlaceCommand>
  ) throws(Fault) -> PlaceRequest {
    PlaceRequest(
      call: try id(message.pointee.call, "call"),
      ringTimeoutSeconds: message.pointee.ring_timeout_seconds,
      description: try text(message.pointee.description, "description"),
      headers: try array(message.pointee.n_headers, message.pointee.headers, header),
      video: message.pointee.video != 0,
      deviceName: try text(message.pointee.device_name, "deviceName"),
      receivedAt: knownTime(message.pointee.received_at_us))
  }

  private static func acknowledgement(
    _ message: UnsafeMutablePointer<Callmesh__V1__Acknowledgement>
  ) throws(Fault) -> Acknowledgement {
    Acknowledgement(
      call: try id(message.pointee.call, "call"), version: message.pointee.version)
  }

  private static func signal(
    _ pointer: UnsafeMutablePointer<Callmesh__V1__SignalCommand>?, _ kind: SignalKind
  ) throws(Fault) -> Command.Body {
    let message = try there(pointer, "signal")
    return .signal(
      try id(message.pointee.call, "call"), kind, body: try text(message.pointee.body, "body"))
  }
}
