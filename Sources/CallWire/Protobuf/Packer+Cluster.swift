internal import CCallProto
internal import CProtobufC
internal import CallCore

/// What nodes say to each other.
extension Packer {
  func commandBatch(
    _ value: CommandBatch
  ) -> UnsafeMutablePointer<Callmesh__V1__CommandBatch> {
    let message = arena.make(callmesh__v1__command_batch__init)
    // Who does not know of senders that are no edges would answer nobody.
    message.pointee.format =
      value.peer == 0 ? ClusterCodec.firstFormat : ClusterCodec.pushFormat
    message.pointee.edge = value.edge
    message.pointee.peer = value.peer
    message.pointee.secret_high = value.secret?.high ?? 0
    message.pointee.secret_low = value.secret?.low ?? 0
    message.pointee.n_commands = value.commands.count
    message.pointee.commands = array(value.commands, command)
    return message
  }

  private func command(_ value: Command) -> UnsafeMutablePointer<Callmesh__V1__Command> {
    let message = arena.make(callmesh__v1__command__init)
    message.pointee.session = value.session.number
    message.pointee.request = value.request
    message.pointee.after = value.after
    message.pointee.devices_per_user = value.devicesPerUser
    set(&message.pointee.app, value.user.app)
    set(&message.pointee.user, value.user.user)
    set(&message.pointee.device, value.device.text)
    if value.callee != value.user { set(&message.pointee.callee, value.callee.user) }
    switch value.credential {
    case .none: break
    case .ticket(let ticket):
      message.pointee.ticket_high = ticket.high
      message.pointee.ticket_low = ticket.low
      message.pointee.ticket_times = ticket.times
      message.pointee.ticket_key = ticket.key
    case .token(let text): set(&message.pointee.token, text)
    case .pushCapability(let text): set(&message.pointee.push_capability, text)
    }
    body(value.body, into: message)
    return message
  }

  private func body(
    _ value: Command.Body, into message: UnsafeMutablePointer<Callmesh__V1__Command>
  ) {
    switch value {
    case .attach(let attach):
      message.pointee.body_case = CALLMESH__V1__COMMAND__BODY_ATTACH
      message.pointee.attach = self.attach(attach)
    case .sessionClosed(let graceful):
      let body = arena.make(callmesh__v1__session_closed__init)
      body.pointee.graceful = graceful ? 1 : 0
      message.pointee.body_case = CALLMESH__V1__COMMAND__BODY_SESSION_CLOSED
      message.pointee.session_closed = body
    case .callerGone(let calls):
      message.pointee.body_case = CALLMESH__V1__COMMAND__BODY_CALLER_GONE
      message.pointee.caller_gone = callerGone(calls)
    case .register(let request):
      message.pointee.body_case = CALLMESH__V1__COMMAND__BODY_REGISTER
      message.pointee.register_ = register(request)
    case .unregister(let device):
      let body = arena.make(callmesh__v1__unregister__init)
      set(&body.pointee.device, device.text)
      message.pointee.body_case = CALLMESH__V1__COMMAND__BODY_UNREGISTER
      message.pointee.unregister = body
    case .place(let request):
      message.pointee.body_case = CALLMESH__V1__COMMAND__BODY_PLACE
      message.pointee.place = place(request)
    case .ack(let items):
      message.pointee.body_case = CALLMESH__V1__COMMAND__BODY_ACK
      message.pointee.ack = ack(items)
    case .answer(let call, let description):
      let body = arena.make(callmesh__v1__answer_command__init)
      body.pointee.call = id(call)
      set(&body.pointee.description, description)
      message.pointee.body_case = CALLMESH__V1__COMMAND__BODY_ANSWER
      message.pointee.answer = body
    case .decline(let call, let scope):
      let body = arena.make(callmesh__v1__decline_command__init)
      body.pointee.call = id(call)
      body.pointee.scope = .init(rawValue: .init(scope.rawValue))
      message.pointee.body_case = CALLMESH__V1__COMMAND__BODY_DECLINE
      message.pointee.decline = body
    case .signal(let call, let kind, let text):
      signal(call, kind, text, into: message)
    case .alerting(let call):
      message.pointee.body_case = CALLMESH__V1__COMMAND__BODY_ALERTING
      message.pointee.alerting = id(call)
    case .busy(let call):
      message.pointee.body_case = CALLMESH__V1__COMMAND__BODY_BUSY
      message.pointee.busy = id(call)
    case .cancel(let call):
      message.pointee.body_case = CALLMESH__V1__COMMAND__BODY_CANCEL
      message.pointee.cancel = id(call)
    case .connected(let call):
      message.pointee.body_case = CALLMESH__V1__COMMAND__BODY_CONNECTED
      message.pointee.connected = id(call)
    case .hangUp(let call):
      message.pointee.body_case = CALLMESH__V1__COMMAND__BODY_HANG_UP
      message.pointee.hang_up = id(call)
    case .resume(let call):
      message.pointee.body_case = CALLMESH__V1__COMMAND__BODY_RESUME
      message.pointee.resume = id(call)
    case .query(let call):
      message.pointee.body_case = CALLMESH__V1__COMMAND__BODY_QUERY
      message.pointee.query = id(call)
    case .pushReport(let report):
      message.pointee.body_case = CALLMESH__V1__COMMAND__BODY_PUSH_REPORT
      message.pointee.push_report = pushReport(report)
    case .tokenTaken(let taken):
      message.pointee.body_case = CALLMESH__V1__COMMAND__BODY_TOKEN_TAKEN
      message.pointee.token_taken = tokenTaken(taken)
    case .calls(let shard):
      let body = arena.make(callmesh__v1__calls_command__init)
      body.pointee.shard = shard
      message.pointee.body_case = CALLMESH__V1__COMMAND__BODY_CALLS
      message.pointee.calls = body
    }
  }

  private func pushReport(
    _ value: PushReport
  ) -> UnsafeMutablePointer<Callmesh__V1__PushReport> {
    let message = arena.make(callmesh__v1__push_report__init)
    message.pointee.call = id(value.call)
    message.pointee.purpose = .init(rawValue: .init(value.purpose.rawValue))
    set(&message.pointee.fingerprint, value.fingerprint)
    message.pointee.at_us = value.at.microseconds
    switch value.outcome {
    case .accepted: message.pointee.result = CALLMESH__V1__PUSH_RESULT__PUSH_RESULT_ACCEPTED
    case .tokenGone(let at):
      message.pointee.result = CALLMESH__V1__PUSH_RESULT__PUSH_RESULT_TOKEN_GONE
      message.pointee.gone_since_us = at?.microseconds ?? 0
    case .rejected(let reason):
      message.pointee.result = CALLMESH__V1__PUSH_RESULT__PUSH_RESULT_REJECTED
      set(&message.pointee.reason, reason)
    case .expired: message.pointee.result = CALLMESH__V1__PUSH_RESULT__PUSH_RESULT_EXPIRED
    case .failed(let reason, let mayHaveArrived):
      message.pointee.result = CALLMESH__V1__PUSH_RESULT__PUSH_RESULT_FAILED
      set(&message.pointee.reason, reason)
      message.pointee.may_have_arrived = mayHaveArrived ? 1 : 0
    }
    return message
  }

  private func tokenTaken(
    _ value: TokenTaken
  ) -> UnsafeMutablePointer<Callmesh__V1__TokenTaken> {
    let message = arena.make(callmesh__v1__token_taken__init)
    set(&message.pointee.fingerprint, value.fingerprint)
    set(&message.pointee.by_user, value.byUser)
    set(&message.pointee.by_device, value.byDevice.text)
    message.pointee.at_us = value.at.microseconds
    return message
  }

  func tokenOwner(_ value: TokenOwner) -> UnsafeMutablePointer<Callmesh__V1__TokenOwner> {
    let message = arena.make(callmesh__v1__token_owner__init)
    message.pointee.format = ClusterCodec.firstFormat
    set(&message.pointee.app, value.user.app)
    set(&message.pointee.user, value.user.user)
    set(&message.pointee.device, value.device.text)
    message.pointee.claimed_at_us = value.claimedAt.microseconds
    return message
  }

  private func attach(_ value: Attach) -> UnsafeMutablePointer<Callmesh__V1__AttachCommand> {
    let message = arena.make(callmesh__v1__attach_command__init)
    if let call = value.forCall { message.pointee.for_call = id(call) }
    set(&message.pointee.device_name, value.deviceName)
    message.pointee.announce = value.announce ? 1 : 0
    set(&message.pointee.client, value.client)
    message.pointee.attached_at_us = value.attachedAt.microseconds
    return message
  }

  private func callerGone(
    _ calls: [CallID]
  ) -> UnsafeMutablePointer<Callmesh__V1__CallerGone> {
    let message = arena.make(callmesh__v1__caller_gone__init)
    guard !calls.isEmpty else { return message }
    let ids = arena.pointers(ProtobufCBinaryData.self, count: calls.count)
    for (index, call) in calls.enumerated() { (ids + index).initialize(to: id(call)) }
    message.pointee.n_calls = calls.count
    message.pointee.calls = ids
    return message
  }

  func pushWithdrawal(
    _ calls: [CallID]
  ) -> UnsafeMutablePointer<Callmesh__V1__PushWithdrawal> {
    let message = arena.make(callmesh__v1__push_withdrawal__init)
    message.pointee.format = ClusterCodec.firstFormat
    guard !calls.isEmpty else { return message }
    let ids = arena.pointers(ProtobufCBinaryData.self, count: calls.count)
    for (index, call) in calls.enumerated() { (ids + index).initialize(to: id(call)) }
    message.pointee.n_calls = calls.count
    message.pointee.calls = ids
    return message
  }

  private func place(
    _ value: PlaceRequest
  ) -> UnsafeMutablePointer<Callmesh__V1__PlaceCommand> {
    let message = arena.make(callmesh__v1__place_command__init)
    message.pointee.call = id(value.call)
    message.pointee.ring_timeout_seconds = value.ringTimeoutSeconds
    set(&message.pointee.description, value.description)
    message.pointee.n_headers = value.headers.count
    message.pointee.headers = array(value.headers, header)
    message.pointee.video = value.video ? 1 : 0
    set(&message.pointee.device_name, value.deviceName)
    message.pointee.received_at_us = value.receivedAt?.microseconds ?? 0
    return message
  }

  private func ack(
    _ items: [Acknowledgement]
  ) -> UnsafeMutablePointer<Callmesh__V1__AckCommand> {
    let message = arena.make(callmesh__v1__ack_command__init)
    message.pointee.n_items = items.count
    message.pointee.items = array(items) { item in
      let entry = arena.make(callmesh__v1__acknowledgement__init)
      entry.pointee.call = id(item.call)
      entry.pointee.version = item.version
      return entry
    }
    return message
  }

  private func signal(
    _ call: CallID, _ kind: SignalKind, _ text: String,
    into message: UnsafeMutablePointer<Callmesh__V1__Command>
  ) {
    let body = arena.make(callmesh__v1__signal_command__init)
    body.pointee.call = id(call)
    set(&body.pointee.body, text)
    switch kind {
    case .description:
      message.pointee.body_case = CALLMESH__V1__COMMAND__BODY_DESCRIPTION
      message.pointee.description = body
    case .candidate:
      message.pointee.body_case = CALLMESH__V1__COMMAND__BODY_CANDIDATE
      message.pointee.candidate = body
    }
  }
}
