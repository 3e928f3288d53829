internal import CCallProto
internal import CallCore

/// What devices say.
extension Packer {
  func clientFrame(_ frame: ClientFrame) -> UnsafeMutablePointer<Callmesh__V1__ClientFrame> {
    let message = arena.make(callmesh__v1__client_frame__init)
    message.pointee.id = frame.id
    command(frame.command, into: message)
    return message
  }

  private func ref(_ address: CallAddress) -> UnsafeMutablePointer<Callmesh__V1__CallRef> {
    ref(callee: address.callee, address.call)
  }

  private func command(
    _ command: ClientCommand, into message: UnsafeMutablePointer<Callmesh__V1__ClientFrame>
  ) {
    switch command {
    case .attach(let request):
      message.pointee.command_case = CALLMESH__V1__CLIENT_FRAME__COMMAND_ATTACH
      message.pointee.attach = attach(request)
    case .detach:
      message.pointee.command_case = CALLMESH__V1__CLIENT_FRAME__COMMAND_DETACH
      message.pointee.detach = arena.make(callmesh__v1__detach__init)
    case .register(let request):
      message.pointee.command_case = CALLMESH__V1__CLIENT_FRAME__COMMAND_REGISTER
      message.pointee.register_ = register(request)
    case .unregister(let device):
      let body = arena.make(callmesh__v1__unregister__init)
      set(&body.pointee.device, device?.text ?? "")
      message.pointee.command_case = CALLMESH__V1__CLIENT_FRAME__COMMAND_UNREGISTER
      message.pointee.unregister = body
    case .place(let call, let request):
      message.pointee.command_case = CALLMESH__V1__CLIENT_FRAME__COMMAND_PLACE
      message.pointee.place = place(call, request)
    case .ack(let items):
      message.pointee.command_case = CALLMESH__V1__CLIENT_FRAME__COMMAND_ACK
      message.pointee.ack = ack(items)
    case .answer(let call, let description):
      let body = arena.make(callmesh__v1__answer__init)
      body.pointee.call = ref(call)
      set(&body.pointee.description, description)
      message.pointee.command_case = CALLMESH__V1__CLIENT_FRAME__COMMAND_ANSWER
      message.pointee.answer = body
    case .decline(let call, let scope):
      let body = arena.make(callmesh__v1__decline__init)
      body.pointee.call = ref(call)
      body.pointee.scope = .init(rawValue: .init(scope.rawValue))
      message.pointee.command_case = CALLMESH__V1__CLIENT_FRAME__COMMAND_DECLINE
      message.pointee.decline = body
    case .signal(let call, let kind, let text):
      signal(call, kind, text, into: message)
    case .renew(let token):
      let body = arena.make(callmesh__v1__renew__init)
      set(&body.pointee.token, token)
      message.pointee.command_case = CALLMESH__V1__CLIENT_FRAME__COMMAND_RENEW
      message.pointee.renew = body
    case .ping:
      message.pointee.command_case = CALLMESH__V1__CLIENT_FRAME__COMMAND_PING
      message.pointee.ping = arena.make(callmesh__v1__ping__init)
    case .calls:
      message.pointee.command_case = CALLMESH__V1__CLIENT_FRAME__COMMAND_CALLS
      message.pointee.calls = arena.make(callmesh__v1__calls__init)
    case .alerting(let call), .busy(let call), .cancel(let call), .connected(let call),
      .hangUp(let call), .resume(let call), .query(let call):
      bare(command, call, into: message)
    }
  }

  /// Commands that name a call and nothing else.
  private func bare(
    _ command: ClientCommand, _ call: CallAddress,
    into message: UnsafeMutablePointer<Callmesh__V1__ClientFrame>
  ) {
    // These messages have one layout; each is made by its own initialiser, for its descriptor.
    let ref = ref(call)
    switch command {
    case .alerting:
      message.pointee.command_case = CALLMESH__V1__CLIENT_FRAME__COMMAND_ALERTING
      message.pointee.alerting = arena.make(callmesh__v1__alerting__init)
      message.pointee.alerting.pointee.call = ref
    case .busy:
      message.pointee.command_case = CALLMESH__V1__CLIENT_FRAME__COMMAND_BUSY
      message.pointee.busy = arena.make(callmesh__v1__busy__init)
      message.pointee.busy.pointee.call = ref
    case .cancel:
      message.pointee.command_case = CALLMESH__V1__CLIENT_FRAME__COMMAND_CANCEL
      message.pointee.cancel = arena.make(callmesh__v1__cancel__init)
      message.pointee.cancel.pointee.call = ref
    case .connected:
      message.pointee.command_case = CALLMESH__V1__CLIENT_FRAME__COMMAND_CONNECTED
      message.pointee.connected = arena.make(callmesh__v1__connected__init)
      message.pointee.connected.pointee.call = ref
    case .hangUp:
      message.pointee.command_case = CALLMESH__V1__CLIENT_FRAME__COMMAND_HANG_UP
      message.pointee.hang_up = arena.make(callmesh__v1__hang_up__init)
      message.pointee.hang_up.pointee.call = ref
    case .resume:
      message.pointee.command_case = CALLMESH__V1__CLIENT_FRAME__COMMAND_RESUME
      message.pointee.resume = arena.make(callmesh__v1__resume__init)
      message.pointee.resume.pointee.call = ref
    case .query:
      message.pointee.command_case = CALLMESH__V1__CLIENT_FRAME__COMMAND_QUERY
      message.pointee.query = arena.make(callmesh__v1__query__init)
      message.pointee.query.pointee.call = ref
    case .attach, .detach, .register, .unregister, .place, .ack, .answer, .decline, .signal, .ping,
      .calls, .renew:
      preconditionFailure("not a bare command")
    }
  }

  private func attach(_ request: AttachRequest) -> UnsafeMutablePointer<Callmesh__V1__Attach> {
    let message = arena.make(callmesh__v1__attach__init)
    set(&message.pointee.token, request.token)
    set(&message.pointee.device, request.device)
    if let call = request.forCall { message.pointee.for_call = id(call) }
    set(&message.pointee.device_name, request.deviceName)
    set(&message.pointee.client, request.client)
    return message
  }

  private func place(
    _ call: CallAddress, _ request: PlaceRequest
  ) -> UnsafeMutablePointer<Callmesh__V1__Place> {
    let message = arena.make(callmesh__v1__place__init)
    message.pointee.call = ref(call)
    message.pointee.ring_timeout_seconds = request.ringTimeoutSeconds
    set(&message.pointee.description, request.description)
    message.pointee.n_headers = request.headers.count
    message.pointee.headers = array(request.headers, header)
    message.pointee.video = request.video ? 1 : 0
    return message
  }

  private func ack(_ items: [AckItem]) -> UnsafeMutablePointer<Callmesh__V1__Ack> {
    let message = arena.make(callmesh__v1__ack__init)
    message.pointee.n_items = items.count
    message.pointee.items = array(items) { item in
      let entry = arena.make(callmesh__v1__ack_item__init)
      entry.pointee.call = ref(item.call)
      entry.pointee.version = item.version
      return entry
    }
    return message
  }

  private func signal(
    _ call: CallAddress, _ kind: SignalKind, _ text: String,
    into message: UnsafeMutablePointer<Callmesh__V1__ClientFrame>
  ) {
    let body = arena.make(callmesh__v1__signal__init)
    body.pointee.call = ref(call)
    set(&body.pointee.body, text)
    switch kind {
    case .description:
      message.pointee.command_case = CALLMESH__V1__CLIENT_FRAME__COMMAND_DESCRIPTION
      message.pointee.description = body
    case .candidate:
      message.pointee.command_case = CALLMESH__V1__CLIENT_FRAME__COMMAND_CANDIDATE
      message.pointee.candidate = body
    }
  }
}
