internal import CCallProto
internal import CallCore

/// What edges say, read by clients.
extension Unpacker {
  static func serverFrame(
    _ message: UnsafeMutablePointer<Callmesh__V1__ServerFrame>
  ) throws(Fault) -> ServerFrame {
    switch message.pointee.message_case {
    case CALLMESH__V1__SERVER_FRAME__MESSAGE_REPLY:
      let reply = try there(message.pointee.reply, "reply")
      return .reply(id: reply.pointee.id, try self.reply(reply))
    case CALLMESH__V1__SERVER_FRAME__MESSAGE_DELIVERY:
      return .delivery(try delivery(there(message.pointee.delivery, "delivery")))
    case CALLMESH__V1__SERVER_FRAME__MESSAGE_NOTICE:
      return .notice(try notice(message.pointee.notice, strictly: false))
    default: throw .unknownMember("message")
    }
  }

  private static func reply(
    _ message: UnsafeMutablePointer<Callmesh__V1__Reply>
  ) throws(Fault) -> ServerReply {
    switch message.pointee.result_case {
    case CALLMESH__V1__REPLY__RESULT_ERROR:
      return .error(try error(there(message.pointee.error, "error")))
    case CALLMESH__V1__REPLY__RESULT_DONE:
      return .done
    case CALLMESH__V1__REPLY__RESULT_ATTACHED:
      return .attached(try attached(there(message.pointee.attached, "attached")))
    case CALLMESH__V1__REPLY__RESULT_REGISTERED:
      let registered = try there(message.pointee.registered, "registered")
      return .registered(
        RegisteredInfo(
          device: DeviceID(try text(registered.pointee.device, "device")),
          expiresAt: time(milliseconds: registered.pointee.expires_at_ms),
          removed: try devices(registered), capabilities: try capabilities(registered)))
    case CALLMESH__V1__REPLY__RESULT_CALL:
      return .call(try callState(message.pointee.call, "call"))
    case CALLMESH__V1__REPLY__RESULT_ANSWER:
      let answer = try there(message.pointee.answer, "answer")
      return .answer(
        won: answer.pointee.won != 0, try callState(answer.pointee.call, "answer.call"))
    case CALLMESH__V1__REPLY__RESULT_CALLS:
      return .calls(try liveCalls(there(message.pointee.calls, "calls")))
    default: throw .unknownMember("result")
    }
  }

  private static func attached(
    _ message: UnsafeMutablePointer<Callmesh__V1__Attached>
  ) throws(Fault) -> AttachedInfo {
    AttachedInfo(
      session: try text(message.pointee.session, "session"),
      user: try text(message.pointee.user, "user"),
      device: DeviceID(try text(message.pointee.device, "device")),
      pingSeconds: message.pointee.ping_seconds,
      serverTime: time(milliseconds: message.pointee.server_time_ms),
      forCall: message.pointee.for_call == nil
        ? nil : try callState(message.pointee.for_call, "forCall"))
  }
}
