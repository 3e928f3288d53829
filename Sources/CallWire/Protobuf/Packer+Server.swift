internal import CCallProto
internal import CallCore

/// What edges say.
extension Packer {
  func serverFrame(_ frame: ServerFrame) -> UnsafeMutablePointer<Callmesh__V1__ServerFrame> {
    let message = arena.make(callmesh__v1__server_frame__init)
    switch frame {
    case .reply(let id, let answer):
      message.pointee.message_case = CALLMESH__V1__SERVER_FRAME__MESSAGE_REPLY
      message.pointee.reply = reply(id, answer)
    case .delivery(let value):
      message.pointee.message_case = CALLMESH__V1__SERVER_FRAME__MESSAGE_DELIVERY
      message.pointee.delivery = delivery(value)
    case .notice(let value):
      message.pointee.message_case = CALLMESH__V1__SERVER_FRAME__MESSAGE_NOTICE
      message.pointee.notice = notice(value)
    }
    return message
  }

  private func reply(
    _ id: UInt64, _ reply: ServerReply
  ) -> UnsafeMutablePointer<Callmesh__V1__Reply> {
    let message = arena.make(callmesh__v1__reply__init)
    message.pointee.id = id
    switch reply {
    case .error(let value):
      message.pointee.result_case = CALLMESH__V1__REPLY__RESULT_ERROR
      message.pointee.error = error(value)
    case .done:
      message.pointee.result_case = CALLMESH__V1__REPLY__RESULT_DONE
      message.pointee.done = arena.make(callmesh__v1__done__init)
    case .attached(let info):
      message.pointee.result_case = CALLMESH__V1__REPLY__RESULT_ATTACHED
      message.pointee.attached = attached(info)
    case .registered(let info):
      message.pointee.result_case = CALLMESH__V1__REPLY__RESULT_REGISTERED
      message.pointee.registered = registered(
        device: info.device.text, expiresAt: info.expiresAt, removed: info.removed,
        capabilities: info.capabilities)
    case .call(let state):
      message.pointee.result_case = CALLMESH__V1__REPLY__RESULT_CALL
      message.pointee.call = callState(state)
    case .answer(let won, let state):
      message.pointee.result_case = CALLMESH__V1__REPLY__RESULT_ANSWER
      message.pointee.answer = answerResult(won: won, state)
    case .calls(let live):
      message.pointee.result_case = CALLMESH__V1__REPLY__RESULT_CALLS
      message.pointee.calls = callList(live)
    }
    return message
  }

  private func attached(_ info: AttachedInfo) -> UnsafeMutablePointer<Callmesh__V1__Attached> {
    let message = arena.make(callmesh__v1__attached__init)
    set(&message.pointee.session, info.session)
    set(&message.pointee.user, info.user)
    set(&message.pointee.device, info.device.text)
    message.pointee.ping_seconds = info.pingSeconds
    message.pointee.server_time_ms = info.serverTime.milliseconds
    message.pointee.for_call = info.forCall.map(callState)
    return message
  }
}
