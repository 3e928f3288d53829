internal import CCallProto
internal import CallCore

/// What devices say. `FrameRules` checks sizes and contents afterwards, for both encodings.
extension Unpacker {
  static func clientFrame(
    _ message: UnsafeMutablePointer<Callmesh__V1__ClientFrame>
  ) throws(Fault) -> ClientFrame {
    ClientFrame(id: message.pointee.id, command: try command(message))
  }

  private static func command(
    _ message: UnsafeMutablePointer<Callmesh__V1__ClientFrame>
  ) throws(Fault) -> ClientCommand {
    switch message.pointee.command_case {
    case CALLMESH__V1__CLIENT_FRAME__COMMAND_ATTACH:
      return .attach(try attach(there(message.pointee.attach, "attach")))
    case CALLMESH__V1__CLIENT_FRAME__COMMAND_DETACH:
      return .detach
    case CALLMESH__V1__CLIENT_FRAME__COMMAND_RENEW:
      return .renew(
        token: try text(there(message.pointee.renew, "renew").pointee.token, "renew.token"))
    case CALLMESH__V1__CLIENT_FRAME__COMMAND_REGISTER:
      return .register(try register(there(message.pointee.register_, "register"), strictly: true))
    case CALLMESH__V1__CLIENT_FRAME__COMMAND_UNREGISTER:
      let device = try text(
        there(message.pointee.unregister, "unregister").pointee.device, "device")
      return .unregister(device.isEmpty ? nil : DeviceID(device))
    case CALLMESH__V1__CLIENT_FRAME__COMMAND_PLACE:
      return try place(there(message.pointee.place, "place"))
    case CALLMESH__V1__CLIENT_FRAME__COMMAND_ACK:
      let ack = try there(message.pointee.ack, "ack")
      return .ack(try array(ack.pointee.n_items, ack.pointee.items, ackItem))
    case CALLMESH__V1__CLIENT_FRAME__COMMAND_ALERTING:
      return .alerting(try address(there(message.pointee.alerting, "alerting").pointee.call))
    case CALLMESH__V1__CLIENT_FRAME__COMMAND_ANSWER:
      let answer = try there(message.pointee.answer, "answer")
      return .answer(
        try address(answer.pointee.call),
        description: try text(answer.pointee.description, "description"))
    case CALLMESH__V1__CLIENT_FRAME__COMMAND_DECLINE:
      let decline = try there(message.pointee.decline, "decline")
      return .decline(
        try address(decline.pointee.call),
        try known(decline.pointee.scope.rawValue, DeclineScope.self, "scope"))
    case CALLMESH__V1__CLIENT_FRAME__COMMAND_BUSY:
      return .busy(try address(there(message.pointee.busy, "busy").pointee.call))
    case CALLMESH__V1__CLIENT_FRAME__COMMAND_CANCEL:
      return .cancel(try address(there(message.pointee.cancel, "cancel").pointee.call))
    case CALLMESH__V1__CLIENT_FRAME__COMMAND_CONNECTED:
      return .connected(try address(there(message.pointee.connected, "connected").pointee.call))
    case CALLMESH__V1__CLIENT_FRAME__COMMAND_HANG_UP:
      return .hangUp(try address(there(message.pointee.hang_up, "hangUp").pointee.call))
    case CALLMESH__V1__CLIENT_FRAME__COMMAND_DESCRIPTION:
      return try signal(message.pointee.description, .description)
    case CALLMESH__V1__CLIENT_FRAME__COMMAND_CANDIDATE:
      return try signal(message.pointee.candidate, .candidate)
    case CALLMESH__V1__CLIENT_FRAME__COMMAND_RESUME:
      return .resume(try address(there(message.pointee.resume, "resume").pointee.call))
    case CALLMESH__V1__CLIENT_FRAME__COMMAND_QUERY:
      return .query(try address(there(message.pointee.query, "query").pointee.call))
    case CALLMESH__V1__CLIENT_FRAME__COMMAND_PING: return .ping
    case CALLMESH__V1__CLIENT_FRAME__COMMAND_CALLS: return .calls
    default: throw .unknownMember("command")
    }
  }

  private static func attach(
    _ message: UnsafeMutablePointer<Callmesh__V1__Attach>
  ) throws(Fault) -> AttachRequest {
    AttachRequest(
      token: try text(message.pointee.token, "attach.token"),
      device: try text(message.pointee.device, "attach.device"),
      forCall: message.pointee.for_call.len == 0
        ? nil : try id(message.pointee.for_call, "attach.forCall"),
      deviceName: try text(message.pointee.device_name, "attach.deviceName"),
      client: try text(message.pointee.client, "attach.client"))
  }

  private static func place(
    _ message: UnsafeMutablePointer<Callmesh__V1__Place>
  ) throws(Fault) -> ClientCommand {
    let address = try address(message.pointee.call)
    let request = PlaceRequest(
      call: address.call, ringTimeoutSeconds: message.pointee.ring_timeout_seconds,
      description: try text(message.pointee.description, "description"),
      headers: try array(message.pointee.n_headers, message.pointee.headers, header),
      video: message.pointee.video != 0)
    return .place(address, request)
  }

  private static func ackItem(
    _ message: UnsafeMutablePointer<Callmesh__V1__AckItem>
  ) throws(Fault) -> AckItem {
    AckItem(call: try address(message.pointee.call), version: message.pointee.version)
  }

  private static func signal(
    _ pointer: UnsafeMutablePointer<Callmesh__V1__Signal>?, _ kind: SignalKind
  ) throws(Fault) -> ClientCommand {
    let message = try there(pointer, "signal")
    return .signal(
      try address(message.pointee.call), kind, body: try text(message.pointee.body, "body"))
  }
}
